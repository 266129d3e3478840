import triton
import triton.language as tl


@triton.jit
def kernel(X, W, Y):
    # axes: g < 6, y < 17, x < 17, y_rest < 9, y_rest_x < 153
    # grid: n < 2, g0 < 1, y_rest_x0 < 3
    # block: g1 < 8 x y_rest_x1 < 64
    # loops: r < 5, s < 5, y_step < 2
    g1 = tl.arange(0, 8)
    y_rest_x1 = tl.arange(0, 64)
    program = tl.program_id(0)
    n = program // 3
    y_rest_x0 = program % 3
    y_rest_x = y_rest_x0 * 64 + y_rest_x1
    y_rest = y_rest_x // 17
    x = y_rest_x % 17
    X_at = X + (n * 6534) + ((g1 * 1089)[:, None] + (y_rest * 132 + x * 2)[None, :])
    W_at = W + g1 * 25
    acc_0 = tl.zeros([8, 64], tl.float32)
    acc_1 = tl.zeros([8, 64], tl.float32)
    for r in tl.static_range(5):
        for s in tl.static_range(5):
            X_tile = tl.load(X_at + (r * 33 + s - 68), mask=(g1 < 6)[:, None] & ((y_rest * 4 + (r - 2)) >= 0)[None, :] & ((y_rest * 4 + (r - 2)) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_0 = acc_0 + X_tile * W_tile[:, None]
            X_tile_2 = tl.load(X_at + (r * 33 + s - 2), mask=(g1 < 6)[:, None] & ((y_rest * 4 + r) >= 0)[None, :] & ((y_rest * 4 + r) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile_2 = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_1 = acc_1 + X_tile_2 * W_tile_2[:, None]
    y = y_rest * 2
    Y_at = Y + (n * 1734) + ((g1 * 289)[:, None] + (y_rest * 34 + x)[None, :])
    tl.store(Y_at, acc_0, mask=(g1 < 6)[:, None] & (y < 17)[None, :] & (y_rest_x < 153)[None, :])
    y_part = y_rest * 2 + 1
    Y_at_2 = Y + (n * 1734 + 17) + ((g1 * 289)[:, None] + (y_rest * 34 + x)[None, :])
    tl.store(Y_at_2, acc_1, mask=(g1 < 6)[:, None] & (y_part < 17)[None, :] & (y_rest_x < 153)[None, :])
