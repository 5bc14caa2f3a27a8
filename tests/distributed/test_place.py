"""Places of ranks, as launchers say them."""

import pytest

from hiprt.distributed import Place, place_of

MEETING = {"MASTER_ADDR": "node7", "MASTER_PORT": "29500"}


def test_without_a_launcher_there_is_one_rank():
    assert place_of({}) == Place(0, 1, 0, "", 0)


@pytest.mark.parametrize(
    ("names", "local"),
    [
        (("RANK", "WORLD_SIZE"), "LOCAL_RANK"),
        (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_LOCAL_RANK"),
        (("PMI_RANK", "PMI_SIZE"), "MPI_LOCALRANKID"),
        (("SLURM_PROCID", "SLURM_NTASKS"), "SLURM_LOCALID"),
    ],
)
def test_launchers(names, local):
    said = {names[0]: "5", names[1]: "8", **MEETING}
    assert place_of({**said, local: "1"}) == Place(5, 8, 1, "node7", 29500)
    assert place_of(said).local_rank == 5


def test_the_store_of_torchrun_waits_at_its_port():
    said = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "TORCHELASTIC_USE_AGENT_STORE": "True", **MEETING}
    assert place_of(said).port == 29501


def test_one_rank_meets_nobody():
    assert place_of({"RANK": "0", "WORLD_SIZE": "1"}) == Place(0, 1, 0, "", 0)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"RANK": "1"}, "WORLD_SIZE is not set, which torchrun"),
        ({"RANK": "two", "WORLD_SIZE": "2"}, "RANK is 'two', which is not a number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2 and WORLD_SIZE is 2: ranks are numbered from 0"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "MASTER_ADDR and MASTER_PORT do not say where"),
        ({"RANK": "0", "WORLD_SIZE": "2", **MEETING, "MASTER_PORT": "99999"}, "MASTER_PORT is 99999, which is no port"),
        ({"RANK": "0", "WORLD_SIZE": "2", **MEETING, "MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
    ],
)
def test_what_does_not_fit_is_said(said, message):
    with pytest.raises(ValueError, match=message):
        place_of(said)
