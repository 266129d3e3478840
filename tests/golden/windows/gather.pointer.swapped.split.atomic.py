import triton
import triton.language as tl


@triton.jit
def kernel_part(W, X, partial):
    # axes: n < 2, y < 14, x < 14, o < 64, r < 3, s < 3, c < 64, c_rest < 32, n_y_x < 392, c0 < 1
    # grid: c_part < 2, n_y_x0 < 7, o0 < 1
    # block: n_y_x1 < 64 x o1 < 64 x c1 < 32
    # loops: c_all < 9
    n_y_x1 = tl.arange(0, 64)
    o1 = tl.arange(0, 64)
    c1 = tl.arange(0, 32)
    program = tl.program_id(0)
    c_part = program // 7
    n_y_x0 = program % 7
    W_at = W + (c_part * 32) + ((o1 * 576)[:, None] + c1[None, :])
    n_y_x = n_y_x0 * 64 + n_y_x1
    n_y_x_wrapped = n_y_x % 392
    y_wrapped = n_y_x_wrapped // 14 % 14
    x_wrapped = n_y_x_wrapped % 14
    X_at = X + (c_part * 32 - 960) + (c1[:, None] + (n_y_x_wrapped * 64)[None, :])
    acc = tl.zeros([64, 64], tl.float32)
    for c_all in tl.range(9):
        r = c_all // 3
        s = c_all % 3
        W_tile = tl.load(W_at + c_all * 64)
        X_tile = tl.load(X_at + r * 896 + s * 64, mask=((y_wrapped + (r - 1)) >= 0)[None, :] & ((y_wrapped + (r - 1)) < 14)[None, :] & ((x_wrapped + (s - 1)) >= 0)[None, :] & ((x_wrapped + (s - 1)) < 14)[None, :], other=0.0)
        acc = tl.dot(W_tile, X_tile, acc)
    partial_at = partial + (n_y_x0 * 4096) + (o1[:, None] + (n_y_x1 * 64)[None, :])
    tl.atomic_add(partial_at, acc, mask=(n_y_x < 392)[None, :], sem="relaxed")


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, Y):
    # axes: n < 2, y < 14, x < 14, o < 64, n_y_x < 392
    # grid: n_y_x0 < 196, o0 < 1
    # block: n_y_x1 < 2 x o1 < 64
    n_y_x1 = tl.arange(0, 2)
    o1 = tl.arange(0, 64)
    n_y_x0 = tl.program_id(0)
    partial_at = partial + (n_y_x0 * 128) + (o1[None, :] + (n_y_x1 * 64)[:, None])
    partial_tile = tl.load(partial_at)
    Y_tile = partial_tile.to(tl.float16)
    Y_at = Y + (n_y_x0 * 128) + (o1[None, :] + (n_y_x1 * 64)[:, None])
    tl.store(Y_at, Y_tile)
