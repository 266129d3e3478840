import triton
import triton.language as tl


@triton.jit
def kernel_part(B, A, partial):
    # axes: i < 16, j < 256, k < 4096, k_rest < 1024
    # grid: k_part < 4, i0 < 1, j0 < 4
    # block: i1 < 16 x j1 < 64 x k1 < 32
    # loops: k0 < 32
    i1 = tl.arange(0, 16)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    program = tl.program_id(0)
    k_part = program // 4
    j0 = program % 4
    B_at = B + (j0 * 262144 + k_part * 1024) + ((j1 * 4096)[:, None] + k1[None, :])
    A_at = A + (k_part * 1024) + ((i1 * 4096)[None, :] + k1[:, None])
    acc = tl.zeros([64, 16], tl.float32)
    for k0 in tl.range(32 * tl.num_programs(1)):
        B_tile = tl.load(B_at + k0 * 32)
        A_tile = tl.load(A_at + k0 * 32)
        acc = tl.dot(B_tile, A_tile, acc)
    partial_at = partial + (j0 * 64) + ((i1 * 256)[None, :] + j1[:, None])
    tl.atomic_add(partial_at, acc, sem="relaxed")


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, C):
    # axes: i < 16, j < 256
    # grid: i0 < 16, j0 < 2
    # block: i1 < 1 x j1 < 128
    j1 = tl.arange(0, 128)
    program = tl.program_id(0)
    i0 = program // 2
    j0 = program % 2
    partial_at = partial + (i0 * 256 + j0 * 128) + j1
    partial_tile = tl.load(partial_at)
    C_tile = (partial_tile[None, :] * tl.sigmoid(partial_tile[None, :])).to(tl.bfloat16)
    C_at = C + (i0 * 256 + j0 * 128) + (tl.broadcast_to(j1[None, :], [1, 128]))
    tl.store(C_at, C_tile)
