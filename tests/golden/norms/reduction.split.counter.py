import triton
import triton.language as tl


@triton.jit
def kernel(X, partial, arrived, S):
    # axes: b < 4, i < 128, j < 300, i_j < 38400, i_j_rest < 9600, part_all < 4
    # grid: part < 4, b0 < 1
    # block: b1 < 4 x i_j1 < 64 x part_all1 < 64
    # loops: i_j0 < 150, part_all0 < 1
    b1 = tl.arange(0, 4)
    i_j1 = tl.arange(0, 64)
    part_all1 = tl.arange(0, 64)
    part = tl.program_id(0)
    X_at = X + (part * 9600) + ((b1 * 38400)[:, None] + i_j1[None, :])
    acc = tl.zeros([4, 64], tl.float32)
    for i_j0 in tl.range(150):
        X_tile = tl.load(X_at + i_j0 * 64)
        acc = acc + X_tile * X_tile
    acc = tl.sum(acc, axis=1)
    partial_at = partial + (part * 4) + b1
    tl.store(partial_at, acc)
    # the last of 4 part to arrive joins them
    tl.debug_barrier()
    before = tl.atomic_add(arrived, 1, sem="acq_rel")
    if before == 3:
        partial_at_2 = partial + ((part_all1 * 4)[None, :] + b1[:, None])
        partial_tile = tl.load(partial_at_2, mask=(part_all1 < 4)[None, :], other=0.0, cache_modifier=".cg")
        total = tl.sum(partial_tile, axis=1)
        S_tile = tl.sqrt(total)
        S_at = S + b1
        tl.store(S_at, S_tile)
        tl.store(arrived, 0)
