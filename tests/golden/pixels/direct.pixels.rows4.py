import triton
import triton.language as tl


@triton.jit
def kernel(X, W, Y):
    # axes: g < 6, y < 17, x < 17, y_rest < 5, y_rest_x < 85
    # grid: n < 2, g0 < 1, y_rest_x0 < 2
    # block: g1 < 8 x y_rest_x1 < 64
    # loops: r < 5, s < 5, y_step < 4
    g1 = tl.arange(0, 8)
    y_rest_x1 = tl.arange(0, 64)
    program = tl.program_id(0)
    n = program // 2
    y_rest_x0 = program % 2
    y_rest_x = y_rest_x0 * 64 + y_rest_x1
    y_rest = y_rest_x // 17
    x = y_rest_x % 17
    X_at = X + (n * 6534) + ((g1 * 1089)[:, None] + (y_rest * 264 + x * 2)[None, :])
    W_at = W + g1 * 25
    acc_0 = tl.zeros([8, 64], tl.float32)
    acc_1 = tl.zeros([8, 64], tl.float32)
    acc_2 = tl.zeros([8, 64], tl.float32)
    acc_3 = tl.zeros([8, 64], tl.float32)
    for r in tl.static_range(5):
        for s in tl.static_range(5):
            X_tile = tl.load(X_at + (r * 33 + s - 68), mask=(g1 < 6)[:, None] & ((y_rest * 8 + (r - 2)) >= 0)[None, :] & ((y_rest * 8 + (r - 2)) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_0 = acc_0 + X_tile * W_tile[:, None]
            X_tile_2 = tl.load(X_at + (r * 33 + s - 2), mask=(g1 < 6)[:, None] & ((y_rest * 8 + r) >= 0)[None, :] & ((y_rest * 8 + r) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile_2 = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_1 = acc_1 + X_tile_2 * W_tile_2[:, None]
            X_tile_3 = tl.load(X_at + (r * 33 + s + 64), mask=(g1 < 6)[:, None] & ((y_rest * 8 + (r + 2)) >= 0)[None, :] & ((y_rest * 8 + (r + 2)) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile_3 = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_2 = acc_2 + X_tile_3 * W_tile_3[:, None]
            X_tile_4 = tl.load(X_at + (r * 33 + s + 130), mask=(g1 < 6)[:, None] & ((y_rest * 8 + (r + 4)) >= 0)[None, :] & ((y_rest * 8 + (r + 4)) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile_4 = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc_3 = acc_3 + X_tile_4 * W_tile_4[:, None]
    y = y_rest * 4
    Y_at = Y + (n * 1734) + ((g1 * 289)[:, None] + (y_rest * 68 + x)[None, :])
    tl.store(Y_at, acc_0, mask=(g1 < 6)[:, None] & (y < 17)[None, :] & (y_rest_x < 85)[None, :])
    y_part = y_rest * 4 + 1
    Y_at_2 = Y + (n * 1734 + 17) + ((g1 * 289)[:, None] + (y_rest * 68 + x)[None, :])
    tl.store(Y_at_2, acc_1, mask=(g1 < 6)[:, None] & (y_part < 17)[None, :] & (y_rest_x < 85)[None, :])
    y_part_2 = y_rest * 4 + 2
    Y_at_3 = Y + (n * 1734 + 34) + ((g1 * 289)[:, None] + (y_rest * 68 + x)[None, :])
    tl.store(Y_at_3, acc_2, mask=(g1 < 6)[:, None] & (y_part_2 < 17)[None, :] & (y_rest_x < 85)[None, :])
    y_part_3 = y_rest * 4 + 3
    Y_at_4 = Y + (n * 1734 + 51) + ((g1 * 289)[:, None] + (y_rest * 68 + x)[None, :])
    tl.store(Y_at_4, acc_3, mask=(g1 < 6)[:, None] & (y_part_3 < 17)[None, :] & (y_rest_x < 85)[None, :])
