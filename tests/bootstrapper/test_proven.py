"""The table of what was run: how an outcome follows another, and that the committed one fits the table of releases."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from wrapper.bootstrapper.proven import (
    NO_ENVIRONMENT,
    OK,
    OUTDATED,
    PASSING,
    Outcome,
    Proof,
    add,
    broken,
    is_settled,
    load_proven,
    renew,
    save_proven,
)
from wrapper.bootstrapper.release import load_releases
from wrapper.errors import FatalError
from wrapper.parser.remedies import load_words
from wrapper.runner.sweep import load_models

ROW = {"tensorflow": "1.12.0", "upstream_commit": "a" * 40, "environment": "1.12.0-cpu-py3.6-0123456789"}
NOTHING = Proof(**ROW)
MONDAY, TUESDAY, WEDNESDAY = "2026-11-30", "2026-12-01", "2026-12-02"


def after(*outcomes: tuple[str, str]) -> Proof:
    """A proof of one model with these verdicts and dates, one after the other."""
    proof = NOTHING
    for verdict, date in outcomes:
        proof = add(proof, "vgg16", verdict=verdict, reason=f"because of {verdict}", date=date)
    return proof


def test_an_ok_has_no_reason_and_breaks_nothing() -> None:
    proof = after((OK, MONDAY))
    assert proof.models == {"vgg16": Outcome(outcome=OK, date=MONDAY)}
    assert list(broken(proof)) == []


def test_a_model_that_never_ran_breaks_nothing() -> None:
    assert list(broken(after(("failed", MONDAY), ("failed", TUESDAY)))) == []


def test_a_model_that_ran_and_fails_stays_broken_until_it_runs_again() -> None:
    proof = after((OK, MONDAY), ("failed", TUESDAY), ("no_total", WEDNESDAY))
    assert list(broken(proof)) == [f"1.12.0 vgg16 (ok on {MONDAY}): no_total: because of no_total"]
    assert list(broken(add(proof, "vgg16", verdict=OK, reason="", date=WEDNESDAY))) == []


def test_only_what_was_judged_since_the_day_is_settled() -> None:
    assert is_settled(after((OK, TUESDAY)), "vgg16", MONDAY)
    assert is_settled(after((OK, MONDAY)), "vgg16", MONDAY)
    assert is_settled(after(("failed", MONDAY)), "vgg16", MONDAY)
    assert not is_settled(after((OK, MONDAY)), "vgg16", TUESDAY)
    assert not is_settled(NOTHING, "vgg16", MONDAY)
    assert not any(is_settled(after((verdict, MONDAY)), "vgg16", MONDAY) for verdict in PASSING)


@pytest.mark.parametrize("change", [{"upstream_commit": "b" * 40}, {"environment": "1.12.0-cpu-py3.6-9999999999"}])
def test_another_row_outdates_what_was_run_but_remembers_that_it_ran(change: dict[str, str]) -> None:
    proof = renew(after((OK, MONDAY)), **(ROW | change))
    assert proof.models == {"vgg16": Outcome(outcome=OUTDATED, date=MONDAY, last_ok=MONDAY)}
    assert not is_settled(proof, "vgg16", MONDAY)
    assert list(broken(proof)) == []
    assert len(list(broken(add(proof, "vgg16", verdict="failed", reason="gone", date=TUESDAY)))) == 1


def test_the_same_row_goes_on() -> None:
    proof = after((OK, MONDAY))
    assert renew(proof, **ROW) is proof


def test_an_environment_that_is_lost_breaks_what_ran_in_it_until_a_model_runs() -> None:
    lost = Outcome(outcome=NO_ENVIRONMENT, date=TUESDAY, reason="no Python 3.6")
    never_ran, ran = Proof(**ROW, failure=lost), Proof(**ROW, failure=lost, models=after((OK, MONDAY)).models)
    assert list(broken(never_ran)) == []
    assert list(broken(ran)) == ["1.12.0: no_environment: no Python 3.6"]
    assert add(ran, "vgg16", verdict=OK, reason="", date=TUESDAY).failure is None


def test_what_is_written_is_read_again_in_the_order_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "proven.yaml"
    assert load_proven(path) == {}
    newer = Proof(tensorflow="2.21.0", upstream_commit="c" * 40, failure=Outcome(outcome=NO_ENVIRONMENT, date=MONDAY, reason="a: b # 'ä'"))
    proofs = {"2.21.0": newer, "1.12.0": after((OK, MONDAY), ("failed", TUESDAY)), "0.1.0": NOTHING}
    save_proven(proofs, ["1.12.0", "2.20.0", "2.21.0"], path)
    assert list(load_proven(path).items()) == [("1.12.0", proofs["1.12.0"]), ("2.21.0", newer)]
    assert [each.name for each in tmp_path.iterdir()] == ["proven.yaml"]


@pytest.mark.parametrize("text", ["proven: [", "proven: [{tensorflow: 1.12, upstream_commit: a}]", "proven: [{tensorflow: '1.12.0'}]", "[]"])
def test_a_wrong_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "proven.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FatalError, match=r"proven\.yaml is wrong"):
        load_proven(path)


def test_the_committed_table_fits_the_releases() -> None:
    releases = {release.tensorflow: release for release in load_releases()}
    proofs = load_proven()
    assert proofs and list(proofs) == [release for release in releases if release in proofs]
    for proof in proofs.values():
        release = releases[proof.tensorflow]
        assert proof.upstream_commit == release.upstream_commit
        assert set(proof.models) <= set(load_models())
        assert not [model for model in release.missing_models if model in proof.models and proof.models[model].outcome == OK], "it runs"
        assert proof.python.rpartition(".")[0] in release.python
        assert proof.environment.startswith(f"{proof.tensorflow}-cpu-py{proof.python.rpartition('.')[0]}-")
        assert list(broken(proof)) == []


def test_the_committed_outcomes_say_why_and_name_no_place_of_a_machine() -> None:
    for proof in load_proven().values():
        for outcome in [*proof.models.values(), *filter(None, [proof.failure])]:
            assert outcome.outcome in {*load_words().verdicts, OUTDATED, NO_ENVIRONMENT}
            datetime.date.fromisoformat(outcome.date)
            assert bool(outcome.reason) is (outcome.outcome not in (OK, OUTDATED))
            assert not re.search(r"://|(^|[\s'\"(])/(root|home|tmp|work|Users)/", outcome.reason)
