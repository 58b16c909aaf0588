"""The threads that compute rounds, align late consumers and judge models, each one thing at a time.

Each waits, runs steps in a compute process and turns errors into reasons; `rounds`, `latecomers` and
`judging` decide.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final, ParamSpec, TypeVar

from analyst_server.compute.dask_pool import ComputeUnreachableError
from analyst_server.compute.pool import TellingExecutor, stop_process_pool, told_by
from analyst_server.compute.sequence import load_libraries
from analyst_server.compute.sight import ArraysNotSeenError, worker_of
from analyst_server.services import end, judging, latecomers, newer, reasons, retention, rounds
from analyst_server.services.analyst import Analyst
from analyst_server.store import Uplink
from analyst_server.training.progress import Told
from protocol.answers import Computing
from protocol.errors import OdcError, RoundFailedError, StorageError
from protocol.version import OlderServerError
from runtime.logs import REQUEST, ROUND, telling

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

DONE: Final = "done"
FAILED: Final = "failed"
"""How a step of a computation ends."""
RENEWALS: Final = 4
"""How often a lease is renewed in its own time."""
MOST_UNSEEN_S: Final = 5.0
"""For so long a step goes on at most whose collaboration was cancelled or closed."""
_ENDED_TWICE: Final = "a compute process ended unexpectedly, twice; it may have run out of memory"
STORAGE_PAUSE_S: Final = 5.0
"""How long a worker waits when the records cannot be read or written, so that the log stays readable."""
COMPUTE_PAUSE_S: Final = 2.0
"""How long it waits before it looks again for a scheduler that was not there."""
PROGRESS_EVERY_S: Final = 1.0
"""How often it is noted how far a computation is, at most; a step that is shorter notes nothing."""
PURGE_EVERY_S: Final = 3600.0
"""How often a worker looks for rounds that the terms let be kept no longer."""


class Worker:
    """Claims one round after another, and computes each."""

    def __init__(
        self,
        analyst: Analyst,
        make_executor: Callable[[], Executor],
        stop_executor: Callable[[Executor], None],
        *,
        poll_s: float,
        lease_s: int,
        hold_release: bool,
        train_on_suspected_rows: bool = False,
        owner: str | None = None,
        make_own: Callable[[], Executor] | None = None,
        on_step: Callable[[str, str, float], None] = lambda _step, _outcome, _seconds: None,
    ) -> None:
        self._analyst = analyst
        self._on_step = on_step
        """Told of each step of a computation: its name, whether it was `DONE`, and its seconds."""
        self._make_executor, self._stop_executor = make_executor, stop_executor
        self._make_own = make_own
        """Makes processes of this machine, where ``make_executor`` reaches others: what they find damaged is
        looked at again beside the records."""
        self._executor: Executor | None = None
        self._is_cut_off = False
        """Whether what computes was not there: nothing is claimed until it is."""
        self._poll_s, self._lease_s, self._hold_release = poll_s, lease_s, hold_release
        self._train_on_suspected_rows = train_on_suspected_rows
        self.owner = owner or uuid.uuid4().hex
        """Under this name it holds the lease of a round."""
        self._purge_after_s = time.monotonic() + PURGE_EVERY_S  # by then the clock of a machine is set
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="round-worker")

    def start(self) -> None:
        self._analyst.leases.hold(self.owner)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs and was not asked to stop."""
        return self._thread.is_alive() and not self._stop.is_set()

    def ask_to_stop(self) -> None:
        """Let the thread end soon; returns at once."""
        self._stop.set()
        self._analyst.has_work.set()  # the only thing the thread waits for

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join()

    def stop(self) -> None:
        """Cut off the running step; its round is started again at the next start of the server."""
        self.ask_to_stop()
        self.join()
        self._analyst.leases.give_up(self.owner)
        if self._executor is not None:
            self._stop_executor(self._executor)

    def _run(self) -> None:
        while True:
            self._analyst.has_work.clear()
            if self._stop.is_set():
                self._analyst.has_work.set()  # what was cleared may have been for another worker
                return
            if not self._look():
                self._analyst.has_work.wait(self._poll_s)

    def _look(self) -> bool:
        """Do the most urgent piece of work; return whether there may be more."""
        try:
            self._purge_in_time()
            if self._is_cut_off:
                self._pool()
                self._is_cut_off = False
                log.info("rounds are computed again")
            if self._do_next():
                return True
            if self._executor is None and rounds.are_expected(self._analyst):
                # loading the libraries takes longer than computing a small round
                self._pool().submit(load_libraries)
        except StorageError as error:
            log.error("the round worker waits: %s: %s", error.detail, error.__cause__)
            self._stop.wait(STORAGE_PAUSE_S)
        except ComputeUnreachableError as error:
            if not self._is_cut_off:  # once, however long it takes
                log.error("rounds wait until they can be computed: %s", error)
            self._is_cut_off = True
            self._drop_pool()
            self._stop.wait(COMPUTE_PAUSE_S)
        except Exception:
            log.exception("the round worker continues after an error")
        return False

    def _purge_in_time(self) -> None:
        """End the rounds that are due, once in a while; what goes wrong there keeps no round waiting."""
        if time.monotonic() < self._purge_after_s:
            return
        try:
            retention.purge(self._analyst)
        except StorageError:  # all else waits for the storage too
            raise
        except Exception:
            log.exception("rounds that are due were not ended; tried again in %d s", PURGE_EVERY_S)
        self._purge_after_s = time.monotonic() + PURGE_EVERY_S

    def _do_next(self) -> bool:
        """Do a piece of work that somebody waits for, or else one that nobody does; False without any.

        It may have been that of a worker of a killed server, whose lock is of no use any more.
        """
        analyst, owner, lease_s = self._analyst, self.owner, self._lease_s
        with analyst.records.begin() as unit:  # one for all, and no write lock: this looks often
            has_round = rounds.are_waiting(analyst, unit)
            has_latecomer = latecomers.are_waiting(analyst, unit)
            has_model = judging.are_waiting(analyst, unit)
        if has_round and (claimed := rounds.claim(analyst, owner, lease_s)) is not None:
            with self._telling(claimed):
                self.run_round(claimed)
        elif has_latecomer and (late := latecomers.claim(analyst, owner, lease_s)) is not None:
            with self._telling(late.collaboration_id):
                self.run_latecomer(late)
        elif has_model and (unjudged := judging.claim(analyst, owner, lease_s)) is not None:
            with self._telling(unjudged):
                self.run_judging(unjudged)
        else:
            return False
        rounds.forget_ended_workers(self._analyst)
        return True

    def _telling(self, collaboration_id: str) -> AbstractContextManager[None]:
        """Let the log say what is worked for: the collaboration, and the request that led to it if known."""
        request = self._analyst.causes.pop(collaboration_id, None)
        return telling(**{ROUND: collaboration_id}, **({REQUEST: request} if request else {}))

    def run_round(self, collaboration_id: str) -> None:
        """Compute a claimed round, and let it fail with the reason if it cannot be computed."""
        log.info("round %s: claimed", collaboration_id[:8])
        try:
            rounds.compute(
                self._analyst,
                collaboration_id,
                self.owner,
                run=partial(self._run_step, collaboration_id),
                check=partial(self._run_on_this_machine, collaboration_id),
                hold_release=self._hold_release,
                train_on_suspected_rows=self._train_on_suspected_rows,
            )
            log.info("round %s: done", collaboration_id[:8])
        except _StoppedError:
            self._let_go(rounds.hand_back, collaboration_id)
            log.info("round %s: left for the next start", collaboration_id[:8])
        except ComputeUnreachableError:
            self._let_go(rounds.hand_back, collaboration_id)
            raise
        except OlderServerError:
            self._leave_alone(collaboration_id)
        except (RoundFailedError, StorageError) as error:
            log.warning("round %s: %s", collaboration_id[:8], error.detail)
            end.erase_if_ended(self._analyst, collaboration_id)
        except (OdcError, ValueError) as error:  # its text says what is wrong with the data
            self._fail(collaboration_id, str(error))
        except BrokenProcessPool:
            self._drop_pool()
            self._fail(collaboration_id, _ENDED_TWICE)
        except Exception as error:  # noqa: BLE001  # `reasons.told` logs it
            self._fail(collaboration_id, reasons.told(f"round {collaboration_id[:8]}", error))

    def _leave_alone(self, collaboration_id: str) -> None:
        """Give up the claim of a round that only a newer server can read, with no step of its ledger."""
        newer.leave_alone(self._analyst, collaboration_id)
        self._let_go(rounds.end_lease, collaboration_id)

    def _fail(self, collaboration_id: str, reason: str) -> None:
        """Let a round fail; if it was cancelled meanwhile, erase what was computed for it since."""
        try:
            rounds.fail(self._analyst, collaboration_id, self.owner, reason)
        except RoundFailedError as error:
            log.warning("round %s: %s", collaboration_id[:8], error.detail)
            end.erase_if_ended(self._analyst, collaboration_id)

    def run_latecomer(self, uplink: Uplink) -> None:
        """Align a claimed late consumer, or refuse it with the reason; after other errors try again."""
        name = f"round {uplink.collaboration_id[:8]}, late consumer {uplink.party}"
        run = partial(self._run_step, uplink.collaboration_id)
        check = partial(self._run_on_this_machine, uplink.collaboration_id)
        try:
            latecomers.compute(self._analyst, uplink, self.owner, run=run, check=check)
            log.info("%s: aligned", name)
        except _StoppedError:
            self._let_go(rounds.end_lease, uplink.collaboration_id)
            log.info("%s: left for the next start", name)
        except OlderServerError:
            self._leave_alone(uplink.collaboration_id)
        except OdcError as error:
            log.warning("%s: %s", name, error.detail)
        except ValueError as error:  # its text says what is wrong with the data
            latecomers.refuse(self._analyst, uplink, self.owner, str(error))
            log.warning("%s: refused, %s", name, error)
        except ComputeUnreachableError:
            self._let_go(rounds.end_lease, uplink.collaboration_id)
            raise
        except BrokenProcessPool:
            self._drop_pool()
            log.warning("%s: a compute process ended unexpectedly; tried again after the lease", name)
        except Exception as error:  # noqa: BLE001  # `reasons.told` logs it
            log.warning("%s: tried again after the lease: %s", name, reasons.told(name, error))

    def run_judging(self, collaboration_id: str) -> None:
        """Judge the model of a claimed round, or write down why that cannot be done."""
        name = f"round {collaboration_id[:8]}, its model"
        try:
            self._judge(name, collaboration_id)
            log.info("%s: judged", name)
        except _StoppedError:
            self._let_go(rounds.end_lease, collaboration_id)
            log.info("%s: left for the next start", name)
        except ComputeUnreachableError:
            self._let_go(rounds.end_lease, collaboration_id)
            raise
        except ArraysNotSeenError as error:
            self._let_go(rounds.end_lease, collaboration_id)
            log.error("%s: tried again soon: %s", name, reasons.where(error))
            self._stop.wait(STORAGE_PAUSE_S)
        except OlderServerError:
            self._leave_alone(collaboration_id)
        except (RoundFailedError, StorageError) as error:
            log.warning("%s: %s", name, error.detail)
            end.erase_if_ended(self._analyst, collaboration_id)

    def _judge(self, name: str, collaboration_id: str) -> None:
        run = partial(self._run_step, collaboration_id)
        give_up = partial(judging.give_up, self._analyst, collaboration_id, self.owner)
        try:
            judging.compute(self._analyst, collaboration_id, self.owner, run=run)
        except (
            _StoppedError,
            ComputeUnreachableError,
            ArraysNotSeenError,
            RoundFailedError,
            StorageError,
        ):
            raise
        except OdcError as error:
            give_up(error.detail)
        except BrokenProcessPool:
            self._drop_pool()
            give_up(_ENDED_TWICE)
        except Exception as error:  # noqa: BLE001  # `reasons.told` logs it
            give_up(reasons.told(name, error))

    def _let_go(self, give_up: Callable[[Analyst, str, str], None], collaboration_id: str) -> None:
        """Give up what was claimed, so that nobody waits for its lease."""
        with suppress(RoundFailedError):  # its collaboration has ended just now
            give_up(self._analyst, collaboration_id, self.owner)

    def _pool(self) -> Executor:
        if self._executor is None:
            self._executor = self._make_executor()
        return self._executor

    def _drop_pool(self) -> None:
        """Take another executor for the next step: this one is broken."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def _run_step(
        self, collaboration_id: str, step: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run one step in the pool, and once more if its process is killed; renew the lease meanwhile.

        Also once more in a new process if it may not read: it may open the directory that was there when it
        started, and not one that was mounted there since.
        """
        run = partial(self._run_once, collaboration_id, step, *args, **options)
        try:
            return run()
        except BrokenProcessPool:
            why = "a compute process ended unexpectedly"
        except PermissionError as error:
            if worker_of(error) is not None:  # a new one would ask the same worker
                raise
            why = f"a compute process may not read the arrays ({error})"
        log.warning("round %s: %s; its step is run once more", collaboration_id[:8], why)
        self._drop_pool()
        self._note_progress(collaboration_id, None)  # what was done is lost
        return run()

    def _run_on_this_machine(
        self, collaboration_id: str, step: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a step in a process of this machine, also where all others run elsewhere."""
        if self._make_own is None:
            return self._run_step(collaboration_id, step, *args, **options)
        own = self._make_own()
        try:
            return self._wait_in_turns(collaboration_id, own.submit(step, *args, **options))
        finally:
            stop_process_pool(own)

    def _run_once(
        self, collaboration_id: str, step: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        began, outcome = time.perf_counter(), FAILED
        self._forget_progress()
        try:
            found = self._wait_for(collaboration_id, self._pool().submit(step, *args, **options))
            outcome = DONE
            return found
        finally:
            self._on_step(step.__name__, outcome, time.perf_counter() - began)

    def _wait_for(self, collaboration_id: str, future: Future[T]) -> T:
        """Return the result of a step, and renew the lease until it is there.

        A step that nobody wants any more is ended: the next round would wait for it.
        """
        try:
            return self._wait_in_turns(collaboration_id, future)
        except RoundFailedError:
            if self._executor is not None:
                self._stop_executor(self._executor)
                self._executor = None
            raise

    def _wait_in_turns(self, collaboration_id: str, future: Future[T]) -> T:
        renewed_at = noted_at = time.monotonic()
        noted: Told | None = None
        while not wait([future], timeout=self._poll_s).done:
            if self._stop.is_set():
                future.cancel()
                raise _StoppedError
            if time.monotonic() >= renewed_at + min(self._lease_s / RENEWALS, MOST_UNSEEN_S):
                self._renew(collaboration_id)
                renewed_at = time.monotonic()
            told = told_by(self._executor)
            if told not in (None, noted) and time.monotonic() >= noted_at + PROGRESS_EVERY_S:
                noted, noted_at = told, time.monotonic()
                self._note_progress(collaboration_id, told)
        return future.result()

    def _note_progress(self, collaboration_id: str, told: Told | None) -> None:
        value = None if told is None else Computing(stage=told.stage, at=self._analyst.clock())
        if told is not None and value is not None and told.of:
            value |= {"done": min(told.done, told.of), "of": told.of, "unit": told.unit}
        try:
            rounds.note_progress(self._analyst, collaboration_id, self.owner, value)
        except StorageError as error:  # nothing depends on it
            log.info("round %s: its progress was not noted: %s", collaboration_id[:8], error.detail)

    def _forget_progress(self) -> None:
        if isinstance(self._executor, TellingExecutor):
            self._executor.forget()

    def _renew(self, collaboration_id: str) -> None:
        try:
            rounds.renew(self._analyst, collaboration_id, self.owner, self._lease_s)
        except (
            StorageError
        ) as error:  # no reason to throw away what is computed: the next renewal may succeed
            log.error("round %s: the lease was not renewed: %s", collaboration_id[:8], error.detail)


class Workers:
    """As many workers as rounds may be computed at once; each has a compute process of its own."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    @property
    def are_alive(self) -> bool:
        """Whether any of them takes up rounds."""
        return any(worker.is_alive for worker in self._workers)

    def stop(self) -> None:
        """Stop all of them. No compute process is ended while a worker may still wait for one."""
        for worker in self._workers:
            worker.ask_to_stop()
        for worker in self._workers:
            worker.join()
        for worker in self._workers:
            worker.stop()


class _StoppedError(Exception):
    """The server is going down."""
