import triton
import triton.language as tl


@triton.jit
def kernel(A_desc, B_desc, C_desc):
    # axes: i < 16, j < 256, k < 4096
    # grid: i0 < 1, j0 < 4
    # block: i1 < 16 x j1 < 64 x k1 < 32
    # loops: k0 < 128
    j0 = tl.program_id(0)
    acc = tl.zeros([16, 64], tl.float32)
    for k0 in tl.range(128):
        A_tile = A_desc.load([0, k0 * 32])
        B_tile = B_desc.load([j0 * 64, k0 * 32]).T
        acc = tl.dot(A_tile, B_tile, acc)
    acc_left, acc_right = tl.split(tl.permute(tl.reshape(acc, [16, 2, 32]), [0, 2, 1]))
    C_tile = (acc_left * tl.sigmoid(acc_left)).to(tl.bfloat16)
    C_desc.store([0, j0 * 64], C_tile)
    C_tile_2 = (acc_right * tl.sigmoid(acc_right)).to(tl.bfloat16)
    C_desc.store([0, j0 * 64 + 32], C_tile_2)
