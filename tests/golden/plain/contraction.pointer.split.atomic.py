import triton
import triton.language as tl


@triton.jit
def kernel_part(A, B, partial):
    # axes: i < 2048, j < 2048, k < 512, k_rest < 128
    # grid: k_part < 4, i0 < 32, j0 < 32
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    program = tl.program_id(0)
    k_part = program // 1024
    # bands of 4 i0: programs that run together share operands in L2
    first = (program % 1024) // 128 * 4
    i0 = first + (program % 1024) % 128 % 4
    j0 = (program % 1024) % 128 // 4
    A_at = A + (i0 * 32768 + k_part * 128) + ((i1 * 512)[:, None] + k1[None, :])
    B_at = B + (k_part * 262144 + j0 * 64) + ((k1 * 2048)[:, None] + j1[None, :])
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = tl.load(A_at + k0 * 32)
        B_tile = tl.load(B_at + k0 * 65536)
        acc = tl.dot(A_tile, B_tile, acc)
    partial_at = partial + (i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1[None, :])
    tl.atomic_add(partial_at, acc, sem="relaxed")


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, C):
    # axes: i < 2048, j < 2048
    # grid: i0 < 512, j0 < 8
    # block: i1 < 4 x j1 < 256
    i1 = tl.arange(0, 4)
    j1 = tl.arange(0, 256)
    program = tl.program_id(0)
    i0 = program // 8
    j0 = program % 8
    partial_at = partial + (i0 * 8192 + j0 * 256) + ((i1 * 2048)[:, None] + j1[None, :])
    partial_tile = tl.load(partial_at)
    C_tile = partial_tile.to(tl.float16)
    C_at = C + (i0 * 8192 + j0 * 256) + ((i1 * 2048)[:, None] + j1[None, :])
    tl.store(C_at, C_tile)
