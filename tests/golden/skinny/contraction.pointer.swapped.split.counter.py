import triton
import triton.language as tl


@triton.jit
def kernel(B, A, partial, arrived, C):
    # axes: i < 16, j < 256, k < 4096, k_rest < 1024
    # grid: k_part < 4, i0 < 1, j0 < 4
    # block: i1 < 16 x j1 < 64 x k1 < 32
    # loops: k0 < 32, k_part_all < 4
    i1 = tl.arange(0, 16)
    j1 = tl.arange(0, 64)
    k1 = tl.arange(0, 32)
    program = tl.program_id(0)
    k_part = program // 4
    j0 = program % 4
    B_at = B + (j0 * 262144 + k_part * 1024) + ((j1 * 4096)[:, None] + k1[None, :])
    A_at = A + (k_part * 1024) + ((i1 * 4096)[None, :] + k1[:, None])
    acc = tl.zeros([64, 16], tl.float32)
    for k0 in tl.range(32 * tl.num_programs(1)):
        B_tile = tl.load(B_at + k0 * 32)
        A_tile = tl.load(A_at + k0 * 32)
        acc = tl.dot(B_tile, A_tile, acc)
    partial_at = partial + (k_part * 4096 + j0 * 64) + ((i1 * 256)[None, :] + j1[:, None])
    tl.store(partial_at, acc)
    # the last of 4 k_part to arrive joins them
    arrived_at = arrived + j0
    tl.debug_barrier()
    before = tl.atomic_add(arrived_at, 1, sem="acq_rel")
    if before == 3:
        partial_at_2 = partial + (j0 * 64) + ((i1 * 256)[:, None] + j1[None, :])
        total = tl.zeros([16, 64], tl.float32)
        for k_part_all in tl.range(4):
            partial_tile = tl.load(partial_at_2 + k_part_all * 4096, cache_modifier=".cg")
            total = total + partial_tile
        C_tile = (total * tl.sigmoid(total)).to(tl.bfloat16)
        C_at = C + (j0 * 64) + ((i1 * 256)[:, None] + j1[None, :])
        tl.store(C_at, C_tile)
        tl.store(arrived_at, 0)
