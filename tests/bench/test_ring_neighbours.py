"""What is near a ring fits, has its bits, and is launched otherwise."""

import random
from dataclasses import replace

from hiprt.bench.ring_neighbours import neighbours
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of, shared_bytes as ring_bytes
from hiprt.kernels.tuning.target import make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import vector_ring_configuration, vector_rings
from hiprt.provider import NVIDIA

TARGET = make_target("sm_90", 132, 32, NVIDIA)


def test_what_is_near_fits_and_is_launched_otherwise():
    """Of rings of any matrix, and of rings near those."""
    draw, seen = random.Random(0), 0
    for _ in range(60):
        rows, width = 8 * draw.randint(1, 3000), 512 * draw.randint(1, 40)
        product = Product(rows, width, draw.randint(2, 8), 64, 4, draw.random() < 0.3)
        alone = ring_of(product._replace(batch=1), TARGET)
        every = list(vector_rings(product, alone, 132)) if alone else []
        for here in (TARGET, replace(TARGET, compute_units=draw.randint(1, 300))):
            ring = draw.choice(every) if every else None
            for _ in range(3 if ring else 0):
                found = neighbours(ring, product, here)
                launched = [vector_ring_configuration(product, each) for each in (ring, *found)]
                launches = {(one.grid, *one.template.items()) for one in launched}
                assert len(launches) == len(launched)
                assert {each.alone for each in found} <= {ring.alone}
                assert all(each.helpers >= 0 for each in found)
                seen += len(found)
                ring = draw.choice(found)
    assert seen > 10000


def test_what_is_near_a_ring_of_one_vector_has_its_bits_and_room():
    """The same simdgroups share a row; each threadgroup of a processor has registers and memory."""
    draw, seen = random.Random(0), 0
    for _ in range(60):
        rows, width = 8 * draw.randint(1, 3000), 512 * draw.randint(1, 40)
        product = Product(rows, width, 1, 64, 4, draw.random() < 0.3)
        for here in (TARGET, replace(TARGET, compute_units=draw.randint(1, 300))):
            ring = ring_of(product, here)
            for _ in range(3 if ring else 0):
                found = neighbours(ring, product, here)
                launched = [ring_configuration(product, each, here) for each in (ring, *found)]
                launches = {(one.grid, *one.template.items()) for one in launched}
                assert len(launches) == len(launched)
                assert {each.split for each in found} <= {ring.split}
                assert max((one.threads[0] for one in launched[1:]), default=0) <= 768
                form = {"GROUP": 64, "BITS": 4, "WIDTH": width}
                for one in launched[1:]:
                    assert ring_bytes({**form, **one.template}, here) * one.template["RESIDENT"] <= 227 << 10
                seen += len(found)
                ring = draw.choice(found or [ring])
    assert seen > 10000


def test_a_search_can_return_to_a_ring_of_the_table():
    """What is near one has it near."""
    for size, ring in TARGET.table.rings.items():
        product = Product(*size, 1, 64, 4, False)
        near = neighbours(ring, product, TARGET)
        assert len(near) >= 10
        assert any(ring in neighbours(each, product, TARGET) for each in near)


def test_what_is_near_has_up_to_24_simdgroups():
    """Three teams of eight share out the product in front of a mixture faster than two."""
    product = Product(2048, 4096, 1, 64, 4, False)
    near = neighbours(Ring(2, 8, 2, 2, 2, 112), product, TARGET)
    assert any(ring.teams == 3 for ring in near)
    assert TARGET.table.plain_rings[2048, 4096].teams == 3
    assert not any(ring.teams * ring.split > 24 for ring in near)
