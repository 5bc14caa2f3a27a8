"""HIPRT_CPU_QUIRKS and HIPRT_CPU_PROFILE: names, values, and what a wrong name does."""

import re

import pytest
from helpers.child import run
from helpers.hip_calls import library

NAMES = """
params_by_pointer getparams_alias getparams_extra getparams_flat_copy param_info_missing setparams_validate_old_func
update_bfs_count_only update_partial update_no_dep_check
memcpy_flavour_ub child_update_selfcopy child_update_stale_packets update_swallow_error kernarg_bump_leak
kernarg_null_crash update_no_flush batch_stale generic_setparams_stale node_handle_reuse multiroot_no_launch_wait
fanout_drop disabled_drops_edges child_no_sync parallel_shuffle exec_overlap update_inflight_visible destroy_immediate
slow_completion host_params_live disabled_list_stale device_binding func_reject zero_dim_reject add_fail_keeps_node
instantiate_garbage_handle endcapture_garbage_handle capture_sync_invalidates_all capture_devsync_900
capture_malloc_900 capture_external_wait_crash capture_lazy_join capture_holes_lt7 pool_threshold_ignored
pool_low_mem_block pool_oversize_reuse pool_retag_race pool_oom_fault pools_unsupported_attr freeasync_null_error
autofree_device_wide alloc_node_once nodetype_base1 nodetype_54 memset_layout poison_on_free lasterror_overwrite
destroyed_handle_709 arg_guard free_takes_host_memory register_twice
codes_lt7 child_of_itself ipc_event_never_waits fill_shape_reject
event_of_captured_stream wait_for_captured_stream event_of_gone_stream
""".split()


def states():
    """Each quirk's state: 1 on, 0 off, -1 unknown."""
    return [library().hiprtCpuQuirk(name.encode()) for name in NAMES]


def ask(quirks="", profile=""):
    """Return the quirks that are on, and what the device wrote."""
    done = run(states, [], quirks, profile, {})
    assert done.returncode == 0, done.stderr
    values = [int(value) for value in done.stdout.strip().strip("[]").split(",")]
    assert -1 not in values
    return [name for name, value in zip(NAMES, values, strict=True) if value], done.stderr


def test_none_by_default():
    assert ask() == ([], "")
    assert ask(profile="cuda") == ([], "")


def test_every_name_is_known():
    assert ask(",".join(NAMES)) == (NAMES, "")


def test_spaces_and_values():
    on, text = ask("fanout_drop, update_no_flush,Q=8,probability=0.25,kernarg_limit=4096,memset_layout=header,")
    assert sorted(on) == ["fanout_drop", "update_no_flush"]
    assert text == ""


@pytest.mark.parametrize(
    ("setting", "wrong", "near"),
    [
        ({"quirks": "fanuot_drop,batch_stale"}, "fanuot_drop", "fanout_drop"),
        ({"quirks": "kernarg_limits=4,batch_stale"}, "kernarg_limits", "kernarg_limit"),
        ({"profile": "clr7.13", "quirks": "batch_stale"}, "clr7.13", "clr-7.13"),
    ],
)
def test_wrong_names_are_told_and_ignored(setting, wrong, near):
    on, text = ask(**setting)
    assert on == ["batch_stale"]
    assert re.findall("'([^']*)'", text) == [wrong, near]
    assert text.count("\n") == 1


def test_quirks_add_to_a_profile():
    plain, more = ask(profile="clr-10")[0], ask("batch_stale", "clr-10")[0]
    assert set(more) - set(plain) == {"batch_stale"}


def test_profiles_follow_the_versions():
    names = ("clr-6.2", "clr-6.4", "clr-7.2", "clr-7.13", "clr-10", "paranoid")
    on = {name: set(ask(profile=name)[0]) for name in names}
    for name, quirks in on.items():
        assert "update_bfs_count_only" in quirks
        assert ("fanout_drop" in quirks) == (name not in ("clr-6.2", "clr-10"))
        assert ("multiroot_no_launch_wait" in quirks) == (name in ("clr-7.2", "clr-7.13", "paranoid"))
        assert ("lasterror_overwrite" in quirks) == (name in ("clr-6.2", "clr-6.4", "paranoid"))
        assert ("update_swallow_error" in quirks) == (name != "clr-6.2")
        assert ("child_update_selfcopy" in quirks) == (name in ("clr-7.2", "clr-7.13", "paranoid"))
    assert set.union(*on.values()) == on["paranoid"]
    assert "update_inflight_visible" in on["paranoid"] - on["clr-7.13"]
