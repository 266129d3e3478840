import triton
import triton.language as tl


@triton.jit
def kernel_part(A_desc, B_desc, partial):
    # axes: i < 2048, j < 2048, k < 512, k_rest < 128
    # grid: k_part < 4, i0 < 32, j0 < 32
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    program = tl.program_id(0)
    k_part = program // 1024
    # bands of 4 i0: programs that run together share operands in L2
    first = (program % 1024) // 128 * 4
    i0 = first + (program % 1024) % 128 % 4
    j0 = (program % 1024) % 128 // 4
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = A_desc.load([i0 * 64, k_part * 128 + k0 * 32])
        B_tile = B_desc.load([k_part * 128 + k0 * 32, j0 * 64])
        acc = tl.dot(A_tile, B_tile, acc)
    partial_at = partial + (k_part * 4194304 + i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1[None, :])
    tl.store(partial_at, acc)


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, C):
    # axes: i < 2048, j < 2048
    # grid: i0 < 512, j0 < 8
    # block: i1 < 4 x j1 < 256
    # loops: k_part < 4
    i1 = tl.arange(0, 4)
    j1 = tl.arange(0, 256)
    program = tl.program_id(0)
    i0 = program // 8
    j0 = program % 8
    partial_at = partial + (i0 * 8192 + j0 * 256) + ((i1 * 2048)[:, None] + j1[None, :])
    acc = tl.zeros([4, 256], tl.float32)
    for k_part in tl.range(4):
        partial_tile = tl.load(partial_at + k_part * 4194304)
        acc = acc + partial_tile
    C_tile = acc.to(tl.float16)
    C_at = C + (i0 * 8192 + j0 * 256) + ((i1 * 2048)[:, None] + j1[None, :])
    tl.store(C_at, C_tile)
