import triton
import triton.language as tl


@triton.jit
def kernel(W_view_desc, X_desc, Y_desc):
    # axes: n < 2, y < 14, x < 14, o < 64, r < 3, s < 3, c < 64, n0 < 2, y0 < 4, x0 < 1, c0 < 2
    # grid: n_y_x0 < 8, o0 < 1
    # block: n1 < 1, y1 < 4, x1 < 16 x o1 < 64 x c1 < 32
    # loops: c_all < 18
    n_y_x0 = tl.program_id(0)
    n = n_y_x0 // 4
    y0 = n_y_x0 % 4
    acc = tl.zeros([64, 64], tl.float32)
    for c_all in tl.range(18):
        r = c_all // 6
        s = c_all // 2 % 3
        c0 = c_all % 2
        W_view_tile = W_view_desc.load([r, s, 0, c0 * 32]).reshape(64, 32)
        X_tile = X_desc.load([n, r + y0 * 4 - 1, s - 1, c0 * 32]).reshape(64, 32).T
        acc = tl.dot(W_view_tile, X_tile, acc)
    Y_tile = acc.to(tl.float16)
    Y_desc.store([n, y0 * 4, 0, 0], Y_tile.T.reshape(1, 4, 16, 64))
