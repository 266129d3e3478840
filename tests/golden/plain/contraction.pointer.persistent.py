import triton
import triton.language as tl


@triton.jit
def kernel(A, B, C):
    # axes: i < 2048, j < 2048, k < 512
    # grid: i0 < 32, j0 < 32
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 16
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    for tile in tl.range(tl.program_id(0), 1024, 132, flatten=True):
        # bands of 4 i0: programs that run together share operands in L2
        first = tile // 128 * 4
        i0 = first + tile % 128 % 4
        j0 = tile % 128 // 4
        A_at = A + (i0 * 32768) + ((i1 * 512)[:, None] + k1[None, :])
        B_at = B + (j0 * 64) + ((k1 * 2048)[:, None] + j1[None, :])
        acc = tl.zeros([64, 64], tl.float32)
        for k0 in tl.range(16):
            A_tile = tl.load(A_at + k0 * 32)
            B_tile = tl.load(B_at + k0 * 65536)
            acc = tl.dot(A_tile, B_tile, acc)
        acc_left, acc_right = tl.split(tl.permute(tl.reshape(acc, [64, 2, 32]), [0, 2, 1]))
        j1_part = tl.arange(0, 32)
        C_tile = acc_left.to(tl.float16)
        C_at = C + (i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1_part[None, :])
        tl.store(C_at, C_tile)
        C_tile_2 = acc_right.to(tl.float16)
        C_at_2 = C + (i0 * 131072 + j0 * 64 + 32) + ((i1 * 2048)[:, None] + j1_part[None, :])
        tl.store(C_at_2, C_tile_2)
