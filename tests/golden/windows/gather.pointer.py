import triton
import triton.language as tl


@triton.jit
def kernel(X, W, Y):
    # axes: n < 2, y < 14, x < 14, o < 64, r < 3, s < 3, c < 64, n_y_x < 392, c0 < 2
    # grid: n_y_x0 < 7, o0 < 1
    # block: n_y_x1 < 64 x o1 < 64 x c1 < 32
    # loops: c_all < 18
    n_y_x1 = tl.arange(0, 64)
    o1 = tl.arange(0, 64)
    c1 = tl.arange(0, 32)
    n_y_x0 = tl.program_id(0)
    n_y_x = n_y_x0 * 64 + n_y_x1
    n_y_x_wrapped = n_y_x % 392
    y_wrapped = n_y_x_wrapped // 14 % 14
    x_wrapped = n_y_x_wrapped % 14
    X_at = X + (-960) + (c1[None, :] + (n_y_x_wrapped * 64)[:, None])
    W_at = W + ((o1 * 576)[None, :] + c1[:, None])
    acc = tl.zeros([64, 64], tl.float32)
    for c_all in tl.range(18 * tl.num_programs(1)):
        r = c_all // 6
        s = c_all // 2 % 3
        X_tile = tl.load(X_at + r * 896 + (c_all % 6) * 32, mask=((y_wrapped + (r - 1)) >= 0)[:, None] & ((y_wrapped + (r - 1)) < 14)[:, None] & ((x_wrapped + (s - 1)) >= 0)[:, None] & ((x_wrapped + (s - 1)) < 14)[:, None], other=0.0)
        W_tile = tl.load(W_at + c_all * 32)
        acc = tl.dot(X_tile, W_tile, acc)
    Y_tile = acc.to(tl.float16)
    Y_at = Y + (n_y_x0 * 4096) + (o1[None, :] + (n_y_x1 * 64)[:, None])
    tl.store(Y_at, Y_tile, mask=(n_y_x < 392)[:, None])
