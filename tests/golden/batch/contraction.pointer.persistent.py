import triton
import triton.language as tl


@triton.jit
def kernel(A, B, C):
    # axes: i < 128, j < 128, k < 128
    # grid: b < 3, i0 < 2, j0 < 2
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    program = tl.program_id(0)
    b = program // 4
    i0 = (program % 4) % 2
    j0 = (program % 4) // 2
    A_at = A + (b * 16384 + i0 * 8192) + ((i1 * 128)[:, None] + k1[None, :])
    B_at = B + (b * 16384 + j0 * 64) + ((k1 * 128)[:, None] + j1[None, :])
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = tl.load(A_at + k0 * 32)
        B_tile = tl.load(B_at + k0 * 4096)
        acc = tl.dot(A_tile, B_tile, acc, input_precision="tf32")
    acc_left, acc_right = tl.split(tl.permute(tl.reshape(acc, [64, 2, 32]), [0, 2, 1]))
    j1_part = tl.arange(0, 32)
    C_at = C + (b * 16384 + i0 * 8192 + j0 * 64) + ((i1 * 128)[:, None] + j1_part[None, :])
    tl.store(C_at, acc_left)
    C_at_2 = C + (b * 16384 + i0 * 8192 + j0 * 64 + 32) + ((i1 * 128)[:, None] + j1_part[None, :])
    tl.store(C_at_2, acc_right)
