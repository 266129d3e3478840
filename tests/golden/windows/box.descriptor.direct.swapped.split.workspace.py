import triton
import triton.language as tl


@triton.jit
def kernel_part(W_view_desc, X_desc, partial):
    # axes: n < 2, y < 14, x < 14, o < 64, r < 3, s < 3, c < 64, c_rest < 32, n0 < 2, y0 < 4, x0 < 1, c0 < 1
    # grid: c_part < 2, n_y_x0 < 8, o0 < 1
    # block: n1 < 1, y1 < 4, x1 < 16 x o1 < 64 x c1 < 32
    # loops: c_all < 9
    y1 = tl.arange(0, 64) // 16
    x1 = (tl.arange(0, 64)) % 16
    o1 = tl.arange(0, 64)
    program = tl.program_id(0)
    c_part = program // 8
    n_y_x0 = program % 8
    n = n_y_x0 // 4
    y0 = n_y_x0 % 4
    acc = tl.zeros([64, 64], tl.float32)
    for c_all in tl.range(9):
        r = c_all // 3
        s = c_all % 3
        W_view_tile = W_view_desc.load([r, s, 0, c_part * 32]).reshape(64, 32)
        X_tile = X_desc.load([n, r + y0 * 4 - 1, s - 1, c_part * 32]).reshape(64, 32).T
        acc = tl.dot(W_view_tile, X_tile, acc)
    y0 = n_y_x0 % 4
    y = y0 * 4 + y1
    partial_at = partial + (c_part * 25088 + n * 12544 + y0 * 3584) + ((y1 * 896 + x1 * 64)[None, :] + o1[:, None])
    tl.store(partial_at, acc, mask=(y < 14)[None, :] & (x1 < 14)[None, :])


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, Y):
    # axes: n < 2, y < 14, x < 14, o < 64, n_y_x < 392
    # grid: n_y_x0 < 196, o0 < 1
    # block: n_y_x1 < 2 x o1 < 64
    # loops: c_part < 2
    n_y_x1 = tl.arange(0, 2)
    o1 = tl.arange(0, 64)
    n_y_x0 = tl.program_id(0)
    partial_at = partial + (n_y_x0 * 128) + (o1[None, :] + (n_y_x1 * 64)[:, None])
    acc = tl.zeros([2, 64], tl.float32)
    for c_part in tl.range(2):
        partial_tile = tl.load(partial_at + c_part * 25088)
        acc = acc + partial_tile
    Y_tile = acc.to(tl.float16)
    Y_at = Y + (n_y_x0 * 128) + (o1[None, :] + (n_y_x1 * 64)[:, None])
    tl.store(Y_at, Y_tile)
