"""The clock from the stamps of step lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_verdict import CASE, RUN, TWO_GPUS

from wrapper.parser.clock import Clock, Window, disagreement, drift, read_stamps, timed_window, window_throughput
from wrapper.parser.line import Step
from wrapper.parser.output import parse
from wrapper.parser.stderr import summarise_stderr
from wrapper.parser.verdict import Judgement, judge
from wrapper.process import Execution


def steps(*numbers: int) -> list[Step]:
    return [Step(number, 100.0, 0.0, 0.0, 1.0, line) for line, number in enumerate(numbers, start=3)]


def test_throughput_and_windows() -> None:
    clock = window_throughput(steps(1, 10, 20, 30), [0.0, 0.0, 5.0, 6.8, 8.8, 12.8], 64)
    assert clock is not None
    assert (clock.steps, clock.seconds) == (29, pytest.approx(7.8))
    assert clock.images_per_sec == pytest.approx(29 * 64 / 7.8)
    assert clock.resolution == pytest.approx(0.1 / 7.8)
    assert [(window.first_step, window.last_step) for window in clock.windows] == [(2, 10), (11, 20), (21, 30)]
    assert [window.images_per_sec for window in clock.windows] == pytest.approx([320.0, 320.0, 160.0])


def test_fast_steps_share_a_window() -> None:
    clock = window_throughput(steps(1, 2, 3, 4, 5), [0.0, 0.0, 1.0, 1.2, 1.4, 1.6, 1.8], 10)
    assert clock is not None
    assert clock.windows == (Window(first_step=2, last_step=4, images_per_sec=pytest.approx(50.0)),)


@pytest.mark.parametrize(
    ("numbers", "seconds"),
    [
        ((), [0.0, 0.0]),
        ((1,), [0.0, 0.0, 1.0]),
        ((1, 10), [0.0, 0.0, 1.0]),  # a line without a stamp
        ((1, 10), [0.0, 0.0, 1.0, 1.0]),  # buffered: all in one piece
        ((10, 1), [0.0, 0.0, 1.0, 2.0]),
    ],
)
def test_stamps_that_cannot_tell(numbers: tuple[int, ...], seconds: list[float]) -> None:
    assert window_throughput(steps(*numbers), seconds, 64) is None


def test_the_timed_window_is_from_the_step_header_to_the_total() -> None:
    output = parse([RUN])
    assert output.step_header_line is not None
    stamps = [line / 10 for line in range(1, output.lines + 1)]
    assert timed_window(output, stamps) == (output.step_header_line / 10, output.total_lines[0] / 10)
    assert timed_window(output, stamps[: output.total_lines[0] - 1]) is None
    assert timed_window(parse([RUN[: RUN.index(b"---")]]), stamps) is None


@pytest.mark.parametrize(
    ("total", "ratio"),
    [(100.0, None), (106.0, None), (94.0, None), (120.0, 1.2), (80.0, 0.8)],
)
def test_disagreement(total: float, ratio: float | None) -> None:
    clock = Clock(images_per_sec=100.0, steps=99, seconds=10.0, resolution=0.01)
    assert disagreement(clock, total, steps=100, tolerance=0.05) == ratio


def test_what_was_not_seen_may_have_taken_long() -> None:
    clock = Clock(images_per_sec=100.0, steps=1, seconds=10.0, resolution=0.01)
    assert disagreement(clock, 60.0, steps=2, tolerance=0.05) is None


def judged(images_per_sec: float) -> Judgement:
    return judge(
        case=CASE,
        execution=Execution(exit_code=0, started="2026-01-01T00:00:00Z", seconds=12.0),
        output=parse([RUN]),
        stderr=summarise_stderr([TWO_GPUS]),
        clock=Clock(images_per_sec=images_per_sec, steps=19, seconds=10.0, resolution=0.01),
    )


def test_verdict_by_the_clock() -> None:
    assert judged(600.0).warnings == ()
    (warning,) = judged(800.0).warnings
    assert warning.kind == "clock_disagrees"
    assert "800.00" in warning.detail
    assert "600.84" in warning.detail
    assert [warning.kind for warning in judged(400.0).warnings] == ["clock_disagrees"]
    assert judged(200.0).verdict == "bogus_total"
    assert judged(5000.0).verdict == "ok"  # stamps that came all at once do not take a figure away


def test_stamps_are_read_as_they_were_written_but_for_a_line_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "r1.times.csv"
    file.write_text("line,seconds\n1,0.250000\n2,1.500000\n3,1.5", encoding="ascii")
    assert list(read_stamps(file)) == [0.25, 1.5]


@pytest.mark.parametrize("line", ["1,nan", "1,inf", "1", "1,2,3", "1,soon", "", "1,\u0664"])
def test_damaged_stamps_are_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "r1.times.csv"
    file.write_text(f"line,seconds\n1,0.25\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError):
        read_stamps(file)


def _clock(*rates: float) -> Clock:
    windows = tuple(Window(first_step=10 * at + 2, last_step=10 * at + 11, images_per_sec=rate) for at, rate in enumerate(rates))
    return Clock(images_per_sec=100.0, steps=10 * len(rates), seconds=100.0, resolution=0.001, windows=windows)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((100, 101, 99, 100, 102, 100), ""),
        ((80, 101, 99, 100, 102, 100), "steps 2 to 11 at 80.00 images/sec, those after at 100.00: the warm-up was too short"),
        ((100, 98, 95, 92, 90, 88), "from 99.00 to 89.00 images/sec in the course of the trial"),
        ((80, 100, 100), ""),
        ((), ""),
    ],
)
def test_the_course_of_a_trial(rates: tuple[float, ...], said: str) -> None:
    assert drift(_clock(*rates)) == said
