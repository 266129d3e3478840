import triton
import triton.language as tl


@triton.jit
def kernel(A_desc, B_desc, partial, arrived, C):
    # axes: i < 2048, j < 2048, k < 512, k_rest < 128
    # grid: k_part < 4, i0 < 32, j0 < 32
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4, k_part_all < 4
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    program = tl.program_id(0)
    k_part = program // 1024
    # bands of 4 i0: programs that run together share operands in L2
    first = (program % 1024) // 128 * 4
    i0 = first + (program % 1024) % 128 % 4
    j0 = (program % 1024) % 128 // 4
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = A_desc.load([i0 * 64, k_part * 128 + k0 * 32])
        B_tile = B_desc.load([k_part * 128 + k0 * 32, j0 * 64])
        acc = tl.dot(A_tile, B_tile, acc)
    partial_at = partial + (k_part * 4194304 + i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1[None, :])
    tl.store(partial_at, acc)
    # the last of 4 k_part to arrive joins them
    arrived_at = arrived + i0 * 32 + j0
    tl.debug_barrier()
    before = tl.atomic_add(arrived_at, 1, sem="acq_rel")
    if before == 3:
        partial_at_2 = partial + (i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1[None, :])
        total = tl.zeros([64, 64], tl.float32)
        for k_part_all in tl.range(4):
            partial_tile = tl.load(partial_at_2 + k_part_all * 4194304, cache_modifier=".cg")
            total = total + partial_tile
        C_tile = total.to(tl.float16)
        C_at = C + (i0 * 131072 + j0 * 64) + ((i1 * 2048)[:, None] + j1[None, :])
        tl.store(C_at, C_tile)
        tl.store(arrived_at, 0)
