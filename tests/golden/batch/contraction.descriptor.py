import triton
import triton.language as tl


@triton.jit
def kernel(A_desc, B_desc, C_desc):
    # axes: i < 128, j < 128, k < 128
    # grid: b < 3, i0 < 2, j0 < 2
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4
    program = tl.program_id(0)
    b = program // 4
    i0 = (program % 4) % 2
    j0 = (program % 4) // 2
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = A_desc.load([b, i0 * 64, k0 * 32]).reshape(64, 32)
        B_tile = B_desc.load([b, k0 * 32, j0 * 64]).reshape(32, 64)
        acc = tl.dot(A_tile, B_tile, acc, input_precision="tf32")
    acc_left, acc_right = tl.split(tl.permute(tl.reshape(acc, [64, 2, 32]), [0, 2, 1]))
    C_desc.store([b, i0 * 64, j0 * 64], acc_left.reshape(1, 64, 32))
    C_desc.store([b, i0 * 64, j0 * 64 + 32], acc_right.reshape(1, 64, 32))
