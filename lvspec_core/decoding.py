"""THE loop. All four methods are one loop and one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from lvspec_core.clock import Clock
from lvspec_core.details import Seen
from lvspec_core.drafting import Drafter
from lvspec_core.families.stream import Stream
from lvspec_core.transfer import upload
from lvspec_core.trees import accepted_first, tree_of
from lvspec_core.verifiers import LooseVerifier, StrictVerifier


@dataclass(frozen=True)
class Method:
    """A row of the table. ``draft_sees``: None (no draft, AR), "all", "attended" (SpecVLM) or "uniform" video tokens;
    ``loose``: LVSpec's verification instead of exact match. How a draft proposes is a setting, the same for all methods."""

    draft_sees: str | None
    loose: bool = False


METHODS = {
    "ar": Method(draft_sees=None),
    "naive_sd": Method(draft_sees="all"),
    "specvlm": Method(draft_sees="attended"),
    "lvspec": Method(draft_sees="uniform", loose=True),
}


@dataclass(frozen=True)
class Committed:
    """A token that entered the text; ``relevance`` where the round knew it."""

    id: int
    verdict: str
    relevance: float | None = None


@dataclass(frozen=True)
class Outcome:
    """One round. ``seconds``: the lane's own clock at its end; ``verify_seconds``: the target's pass. ``proposed``: the
    accepted draft tokens come first; ``parents``: for each the index of the one before it, -1 for the text, empty if they are a
    chain. ``seen``: where details were asked for."""

    index: int
    seconds: float
    draft_seconds: float
    verify_seconds: float
    proposed: tuple[int, ...]
    accepted: int
    tokens: tuple[Committed, ...]
    parents: tuple[int, ...] = ()
    seen: Seen | None = None


class Lane:
    """One method's sequence in progress. All of its state is here and in its two caches.

    ``target``: stream that stands before the last prompt token ``last`` [1], so that the first round is like any other: a
    lane's first token comes out of its first round, and tokens ÷ rounds is exactly 1 for AR. ``budget``: tokens to generate.
    """

    details = False  # whether outcomes carry what the models thought

    def __init__(
        self,
        method: str,
        target: Stream,
        drafter: Drafter,
        verifier: StrictVerifier | LooseVerifier,
        last: torch.Tensor,
        budget: int,
        draft_length: int,
        vocabulary: int,
    ):
        self.method = method
        self.target = target
        self.drafter = drafter
        self.verifier = verifier
        self.pending = last  # the last committed token, not yet read by the target
        self.budget = budget
        self.draft_length = draft_length
        self.cut = None if vocabulary == target.model.vocabulary else vocabulary
        self.end_ids = target.model.end_ids
        self.plain = "ar" if METHODS[method].draft_sees is None else None
        self.token_ids: list[int] = []
        self.rounds = 0
        self.seconds = 0.0
        self.clock = Clock(last.device)
        self.finish: str | None = None

    @torch.inference_mode()
    def round(self) -> Outcome:
        """Proposes, scores, verifies, commits; the lane's clock runs from the first line to the last. Where nothing is drawn and the
        proposal does not depend on what the draft says, the host waits for the device once: to read the verdict."""
        self.clock.start()
        # never propose what the budget cannot take: accepted ≤ length, and the target adds one
        proposal = self.drafter.propose(min(self.draft_length, self.budget - len(self.token_ids) - 1))
        self.clock.mark()
        tree = tree_of(proposal.parents)
        start = self.target.length
        ids = torch.cat([self.pending, proposal.ids]) if len(proposal) else self.pending
        read = self.target.append(ids, sees=None if tree.chain else tree.sees_on(ids.device))
        logits = self.target.model.head(read[0])[:, : self.cut]  # [n + 1, shared vocabulary]
        self.clock.mark()
        draft, verdict, relevance = self.verifier.judge(proposal, logits)
        committed = self._commit(tree, draft, verdict, relevance)
        own = upload([verdict.own], self.pending.device)
        self.target.keep(start + 1, verdict.nodes)
        self.drafter.learn(proposal, verdict.nodes, own)
        self.pending = own
        drafted, scored, ended = self.clock.stop()
        self.seconds += ended
        accepted, order, parents, seen = min(verdict.accepted, len(committed)), range(len(draft)), (), None
        if not tree.chain:
            order, parents = accepted_first(tree.parents, verdict.path)
        if self.details:
            why = self.verifier.why(tree, verdict) if verdict.own_kind == "correction" else ""
            seen = Seen(tree, proposal, logits, draft, order, accepted, why)
        proposed = tuple(draft[node] for node in order)
        outcome = Outcome(self.rounds, self.seconds, drafted, scored - drafted, proposed, accepted, committed, parents, seen)
        self.rounds += 1
        return outcome

    def _commit(self, tree, draft, verdict, relevance) -> tuple[Committed, ...]:
        """Adds the accepted tokens and the target's own to the text, up to the first end of text."""
        kinds = (*verdict.kinds, self.plain or verdict.own_kind)
        ids = (*(draft[node] for node in verdict.nodes), verdict.own)
        if relevance is None:
            known = [None] * len(ids)
        else:
            # the target's own token stands where the draft tokens after the last accepted one do; if there are none, it was never scored
            after = tree.children[verdict.nodes[-1] + 1 if verdict.kinds else 0]
            known = [*(relevance[node] for node in verdict.nodes), relevance[after[0]] if after else None]
        committed = []
        for token, kind, share in zip(ids, kinds, known, strict=True):
            committed.append(Committed(token, kind, share))
            if token in self.end_ids:
                self.finish = "end of text"
                break
        self.token_ids += [token.id for token in committed]
        if self.finish is None and len(self.token_ids) >= self.budget:
            self.finish = "token budget"
        return tuple(committed)


def decode(lane: Lane, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Outcome]:
    """The loop of one lane alone: rounds until end of text, token budget or stop."""
    while lane.finish is None and not should_stop():
        yield lane.round()
