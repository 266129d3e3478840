import triton
import triton.language as tl


@triton.jit
def kernel(B, A, C):
    # axes: i < 16, j < 256, k < 4096
    # grid: i0 < 1, j0 < 4
    # block: i1 < 16 x j1 < 64 x k1 < 32
    # loops: k0 < 128
    i1 = tl.arange(0, 16)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    j0 = tl.program_id(0)
    B_at = B + (j0 * 262144) + ((j1 * 4096)[:, None] + k1[None, :])
    A_at = A + ((i1 * 4096)[None, :] + k1[:, None])
    acc = tl.zeros([64, 16], tl.float32)
    for k0 in tl.range(128):
        B_tile = tl.load(B_at + k0 * 32)
        A_tile = tl.load(A_at + k0 * 32)
        acc = tl.dot(B_tile, A_tile, acc)
    C_tile = (acc * tl.sigmoid(acc)).to(tl.bfloat16)
    C_at = C + (j0 * 64) + ((i1 * 256)[None, :] + j1[:, None])
    tl.store(C_at, C_tile)
