"""One collaboration as an institution takes part in it: the terms, the anchor, one uplink, one downlink."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from metering.explanation import RoundExplanation
from protocol.answers import MemberReport, Status
from protocol.errors import OdcError
from protocol.messages import DownlinkManifest, ForgettingStatement, Receipt
from protocol.operations import COLLABORATION_STATUS
from protocol.terms import Terms
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk import (
    anchor,
    coefficients,
    cohort,
    downlink,
    evaluation,
    evidence,
    explanation,
    forgetting,
    ledger_check,
    own_bytes,
    pictures,
    report,
    shared_rows,
    terms,
    uplink,
)
from user_client.sdk.answers import status_in
from user_client.sdk.cohort import Cohort
from user_client.sdk.contrasts import Coefficients
from user_client.sdk.desk import AttackLevel
from user_client.sdk.evaluation import Evaluation
from user_client.sdk.evidence import Evidence
from user_client.sdk.explanation import Background, Explanation
from user_client.sdk.forgetting import Examined
from user_client.sdk.ledger_check import CheckedLedger
from user_client.sdk.model_card import Exported, exported
from user_client.sdk.policy import policy_under
from user_client.sdk.predictor import Predictions, Predictor
from user_client.sdk.prepared import Prepared, prepared_before
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.session import Session, named
from user_client.sdk.shared_rows import SharedRows, Trained
from user_client.secret.own_model import OwnModel
from user_client.transport.upload import Progress


class Round:
    """Our side of one collaboration. `Session.round` makes it.

    Each step can be repeated: it then continues or shows what was done, and does nothing a second time. One
    that needs the analyst raises `ConnectionFailedError`, or the error of the problem if the analyst refuses,
    and one that writes raises `BusyError` while another process works on this round.

    Attributes
    ----------
    id : str
    directory : RoundDirectory
        What this institution has stored of the round.
    """

    def __init__(self, session: Session, collaboration_id: str) -> None:
        self.id = collaboration_id
        self.directory = RoundDirectory(session.home, collaboration_id)
        self._session = session

    def __repr__(self) -> str:
        return f"<Round {self.id}>"

    @property
    def name(self) -> str:
        """Title and first digits of the id, as far as they are known here."""
        title = self.directory.load(Terms).title if self.terms_were_shown else self._session.title_of(self.id)
        return named(title, self.id)

    @property
    def party(self) -> str:
        """The name of this institution."""
        return self._session.membership.party

    def status(self) -> Status:
        """Return the state of the collaboration and whom it waits for, as the analyst reports it."""
        answer = self._session.connection.ask_json(COLLABORATION_STATUS, collaboration_id=self.id)
        return status_in(answer)

    def fetch_terms(self, *, keep: bool = True) -> Terms:
        """Fetch and verify the terms the analyst published.

        Parameters
        ----------
        keep : bool
            Whether a person reads them now: the terms that are kept are the ones `accept` signs.

        Raises
        ------
        TrustError
            If the analyst did not sign them, or they are not for us.
        TermsMismatchError
            If they differ from those we have accepted.
        """
        return terms.fetch_terms(self._session, self.directory, keep=keep)

    @property
    def terms(self) -> Terms:
        """The terms we have signed; raises `NotPreparedError` before that."""
        return terms.accepted_terms(self.directory)

    @property
    def terms_were_shown(self) -> bool:
        """Whether the terms were fetched and kept on this machine."""
        return self.directory.holds(Terms)

    def accept(self, *, accept_row_revealing_model: bool = False) -> Terms:
        """Sign the terms, with a new key for the anchor to be sealed to; return them.

        The terms that were fetched and shown before are signed; if there are none, they are fetched now.
        Signing again sends the same acceptance.

        Raises
        ------
        ConsentMissingError
            If the model is row-revealing and the caller has not explicitly accepted that.
        """
        return terms.accept_terms(
            self._session, self.directory, accept_row_revealing_model=accept_row_revealing_model
        )

    def create_anchor(self, table: Any = None) -> int:
        """Create the anchor's seed and publish it sealed for each member; return how many there are.

        Only the lead does this, and it is done once: calling again sends what was sealed before. An analyst
        that had two anchors of one round, both signed by the lead, could give them to different members.

        Parameters
        ----------
        table : path, pyarrow.Table or data frame, optional
            Required for a public anchor: a table with the feature columns of the terms. As many rows as the
            terms say are taken from it at random.

        Raises
        ------
        NotPreparedError
            If a party has not signed the terms yet.
        TrustError
            If an acceptance the analyst relays was not signed by the party it names.
        InputError, TableError
            If the table is missing, too short or does not fit the terms.
        """
        return anchor.create_anchor(self._session, self.directory, table)

    def share_anchor(self) -> list[str]:
        """Seal the anchor for late consumers that have accepted the terms since; return their names.

        Only the lead does this, as long as it has the key to its own copy.
        """
        return anchor.share_anchor(self._session, self.directory)

    def prepare(
        self,
        data: Any,
        options: PrivacyOptions = PrivacyOptions(),  # noqa: B008  # frozen
        *,
        threshold: float | None = None,
        attacks: AttackLevel = "none",
    ) -> Prepared:
        """Encode a table, treat its rows, draw the secret basis and write the uplink to the state directory.

        Nothing is sent, except for a request for the anchor. If the same file is prepared again with the
        same options, the existing uplink is kept, so that an interrupted upload can continue. Another table
        or other options replace it, until the analyst has accepted an uplink; one that has begun to leave is
        put aside, because it may be the one that the analyst accepts.

        Parameters
        ----------
        data : path, pyarrow.Table or data frame
            A table without rows, with the right columns, makes this institution a consumer.
        options : PrivacyOptions
            What to do to the rows before they leave.
        threshold : float, optional
            Also report of how many rows the projection drops less than this share, and which latent
            dimensions would drop it of all rows.
        attacks : {"none", "quick", "thorough"}
            Try on our own rows what others could find in the uplink, for a few seconds or for minutes. If our
            policy limits what may be found, the quick attacks are tried in any case.

        Raises
        ------
        TableError
            If the table does not fit the terms; it names column and row.
        InputError
            If the options leave no row.
        DifferentUplinkError
            If an uplink from another table, or with other options, was accepted already.
        """
        return uplink.prepare(
            self._session, self.directory, data, options, threshold=threshold, level=attacks
        )

    @property
    def prepared(self) -> Prepared | None:
        """What was prepared last, or None."""
        return prepared_before(self.directory)

    def policy_violations(self) -> list[str]:
        """Return a phrase for every limit, of our policy or of the terms, that the prepared uplink breaks."""
        policy, prepared = policy_under(self.terms, self.directory.home), self.prepared
        if policy is None or prepared is None:
            return []
        return policy.violations_under(self.terms, self.party, prepared)

    def draw_picture(self, data: Any, shape: tuple[int, int], *, count: int = pictures.PICTURE_ROWS) -> bytes:
        """Return a PNG of a few rows of the prepared table: original, projected, rebuilt under collusion.

        It is for this institution alone. `user_client.sdk.pictures.picture` has the parameters.

        Raises `InputError` if the shape does not have as many pixels as a row has features, or there is no
        row, and `NotPreparedError` if nothing is prepared, or the secret basis was erased.
        """
        return pictures.draw_picture(self.directory, data, shape, count)

    def contribute(
        self,
        *,
        accept_signal_loss: bool = False,
        progress: Progress = lambda _done, _all: None,
        confirm: Callable[[Prepared], None] = lambda _prepared: None,
    ) -> Receipt:
        """Send what was prepared, and return the analyst's receipt.

        Calling again continues an interrupted upload, or returns the receipt that is stored. If the analyst's
        copy was damaged since, the same bytes are sent again.

        Parameters
        ----------
        accept_signal_loss : bool
            Send even if the leading axes hold less of our own score than the terms ask for.
        confirm : callable
            Sees what is going to be sent before any of it leaves, and raises an error to keep it here. It is
            not called when an interrupted upload continues.

        Raises
        ------
        SignalLossError
            If it does, and that is not accepted.
        PolicyError
            If our policy does not allow it.
        NotPreparedError
            If nothing is prepared, or it was changed since.
        """
        return uplink.contribute(
            self._session,
            self.directory,
            progress,
            accept_signal_loss=accept_signal_loss,
            confirm=confirm,
        )

    def receive(self, *, wait_s: float = 0, pause: Callable[[float], None] = time.sleep) -> DownlinkManifest:
        """Fetch the downlink, verify it against what we sent, and store it; return its manifest.

        Raises
        ------
        OutOfOrderError
            If the round is not released after ``wait_s`` seconds.
        RoundFailedError
            If it failed, with the analyst's reason.
        TrustError, ProtocolError
            If the downlink is not the analyst's answer to our uplink.
        """
        return downlink.receive(self._session, self.directory, wait_s=wait_s, pause=pause)

    def own_model(self) -> OwnModel:
        """Return our own model t_i; raises `NotPreparedError` before `receive`, or if the terms have none."""
        return downlink.own_model(self.directory)

    def shared_rows(self) -> SharedRows:
        """Return the aligned rows of all institutions with their labels, for a model of our own.

        Raises `NotPreparedError` before `receive`, and `InputError` unless `knn` has come back.
        """
        return shared_rows.shared_rows(self.directory)

    def train(self, kind: str = "averaged") -> Trained:
        """Train a model of our own on the shared rows, which predicts in the place of the one that came.

        Raises what `shared_rows` does, and `InputError` for a kind that cannot be trained here.
        """
        return shared_rows.train(self.directory, kind)

    def remove_trained(self) -> None:
        """Undo `train`."""
        shared_rows.remove_trained(self.directory)

    def predictor(self) -> Predictor:
        """Return the model, opened once to predict for any number of tables without asking for anything.

        Raises `NotPreparedError` before `receive`, or if the secret basis was erased.
        """
        return Predictor(self.directory)

    def predict(
        self, data: Any, *, thresholds: Mapping[str, float] | None = None, coverage: float | None = None
    ) -> Predictions:
        """Predict for one table, as `Predictor.predict` does."""
        return self.predictor().predict(data, thresholds=thresholds, coverage=coverage)

    def evaluate(self, data: Any, *, send: bool = False) -> Evaluation:
        """Score the collaboration's model beside one of our own rows alone, on rows that were not sent.

        The result is stored; `evaluation` returns it again.

        Parameters
        ----------
        data : path, pyarrow.Table or data frame
            With labels. Of the table that was prepared, the rows that were kept back are evaluated; of
            another table, all.
        send : bool
            Also send the scores to the analyst, signed, for the report that every member reads.

        Raises
        ------
        NothingKeptBackError
            If there is no row to evaluate on.
        ConsentMissingError
            If they should be sent, and the terms do not say so.
        NotPreparedError
            Before `receive`, or if the secret basis was erased.
        TableError
            If the table does not fit the terms; it names column and row.
        """
        return evaluation.evaluate(self._session, self.directory, data, send=send)

    @property
    def evaluation(self) -> Evaluation | None:
        """What `evaluate` found last, or None."""
        return evaluation.stored_evaluation(self.directory)

    def report(self, *, wait_s: float = 0, pause: Callable[[float], None] = time.sleep) -> MemberReport:
        """Return what happened and what it cost; wait up to ``wait_s`` until the model is judged."""
        return report.fetch_report(self._session, self.id, wait_s=wait_s, pause=pause)

    def _report_if_reachable(self) -> MemberReport | None:
        with suppress(OdcError):  # what asks for it can do without
            return self.report()
        return None

    def export(self) -> Exported:
        """Return one ONNX file from the raw columns of a table to the answer, with its card.

        It holds F_i G_i and must stay inside this institution. The file was compared with `predict`. The
        card has the scores of the analyst's report, unless the analyst cannot be reached.

        Raises
        ------
        NotPreparedError
            Before `receive`, or if the secret basis was erased.
        MissingExtraError
            Without the extra ``export``.
        ExportDiffersError
            If the file does not say what `predict` says.
        """
        self.directory.load(DownlinkManifest)  # before the libraries are loaded
        return exported(self.directory, self.evaluation, self._report_if_reachable, now=self._session.clock())

    def coefficients(self, data: Any = None) -> Coefficients:
        """Return the coefficients of a linear model by original column, with 95 % intervals.

        ``data`` has rows of ours with labels, best those that were sent; sums need none. Raises `InputError`
        if the model is not linear, and what `predict` does.
        """
        return coefficients.coefficients(self.directory, data, self._report_if_reachable)

    def cohort(self) -> Cohort:
        """Return the rows of all institutions in figures; raises `InputError` if the terms give no total."""
        return cohort.cohort(self.directory)

    def explain(self, data: Any, *, background: Background = "anchor") -> Explanation:
        """Explain which original columns the answers for a table come from; labels in it tell more.

        The rows of the ``background`` stand for "nothing is known of this column": those of the anchor are
        the same for every institution, ``own`` are those of the table. Raises what `predict` does, and
        `NotPreparedError` if the key to the anchor was erased.
        """
        return explanation.explain(self._session, self.directory, data, background=background)

    def forget(self, *, confirmed: bool = False) -> ForgettingStatement:
        """Erase the secret basis and what leads to it; return our signed statement.

        The anchor is erased too as soon as nothing needs it: when our own model is trained, or if the terms
        have none. Calling again erases what has become unnecessary since, and adds it to the statement.

        Parameters
        ----------
        confirmed : bool
            Required where something is lost: under terms that predict with F_i, and before the uplink is
            sent. Under NRI-DC it also erases the anchor, and makes our own model impossible if that is not
            trained yet: this is meant for a round that will not be released.

        Raises `ConfirmationNeededError`, which says what would be lost, and `NotPreparedError` if there is
        nothing to forget.
        """
        return forgetting.forget(self._session, self.directory, confirmed=confirmed)

    def examine(self) -> Examined:
        """List every file of the round, and verify our statement of what was erased."""
        return forgetting.examine(self._session, self.directory)

    def fetch_ledger(self) -> tuple[bytes, CheckedLedger]:
        """Fetch the ledger, check it as `verify_ledger` does, and return its file and its content.

        Raises
        ------
        LedgerError, TrustError, ProtocolError
            If it fails verification. It is then stored beside the last good one, as evidence.
        """
        return ledger_check.fetch_ledger(self._session, self.directory)

    def stored_ledger(self) -> bytes:
        """Return the longest ledger that passed verification; raises `NotPreparedError` if there is none."""
        return ledger_check.stored_ledger(self.directory)

    def verify_ledger(self, data: bytes) -> CheckedLedger:
        """Check a ledger without asking anybody; one that is longer than before is stored.

        Raises
        ------
        LedgerError
            It says which entry is wrong, and how.
        TrustError, ProtocolError
            If it is not a ledger signed by our analyst.
        """
        return ledger_check.verify_ledger(self._session, self.directory, data)

    def evidence(self) -> Evidence:
        """Return a signed archive of all that we can show an auditor of this round; it works offline.

        Raises `NotPreparedError` if the terms were never fetched, and `UnreadableFileError` if our files do
        not belong together.
        """
        return evidence.make_evidence(self._session, self.directory)

    def explain_bytes(self) -> RoundExplanation | None:
        """Return where the bytes of our part of the round went, or None before we have its terms."""
        return own_bytes.explain_bytes(self._session, self.directory)
