import triton
import triton.language as tl


@triton.jit
def kernel_part(X, partial):
    # axes: b < 4, i < 128, j < 300, i_j < 38400, i_j_rest < 9600
    # grid: part < 4, b0 < 1
    # block: b1 < 4 x i_j1 < 64
    # loops: i_j0 < 150
    b1 = tl.arange(0, 4)
    i_j1 = tl.arange(0, 64)
    part = tl.program_id(0)
    X_at = X + (part * 9600) + ((b1 * 38400)[:, None] + i_j1[None, :])
    acc = tl.zeros([4, 64], tl.float32)
    for i_j0 in tl.range(150):
        X_tile = tl.load(X_at + i_j0 * 64)
        acc = acc + X_tile * X_tile
    acc = tl.sum(acc, axis=1)
    partial_at = partial + (part * 4) + b1
    tl.store(partial_at, acc)


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, S):
    # axes: b < 4, part < 4
    # grid: b0 < 1
    # block: b1 < 4 x part1 < 32
    # loops: part0 < 1
    b1 = tl.arange(0, 4)
    part1 = tl.arange(0, 32)
    partial_at = partial + ((part1 * 4)[None, :] + b1[:, None])
    partial_tile = tl.load(partial_at, mask=(part1 < 4)[None, :], other=0.0)
    acc = tl.sum(partial_tile, axis=1)
    S_tile = tl.sqrt(acc)
    S_at = S + b1
    tl.store(S_at, S_tile)
