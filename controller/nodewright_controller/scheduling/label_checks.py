"""Checks of a pod's own rules about labels against one pool, with what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.checks import Checks, listed, values_text
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.hints import near_label, near_value, setter_of
from nodewright_controller.scheduling.pod_edits import DropRule, RenameLabel, ReplaceValue
from nodewright_controller.scheduling.pool_edits import (
    AddImage,
    AllowValues,
    DropPoolRule,
    SetLabel,
)
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.states import Constraint, State


class LabelChecks(Checks):
    """Selector and node affinity."""

    def _labels(self, base: State) -> tuple[State, list[Refusal]]:
        """Return the state of the alternative with the fewest conflicts, and these."""
        best: tuple[int, int] | None = None
        found: tuple[State, list[Refusal]] = (base, [])
        for position, alternative in enumerate(self._class.shape.required):
            refusals = self._conflicts(base, alternative)
            if best is None or (len(refusals), position) < best:
                best = (len(refusals), position)
                found = (self._narrowed(base, alternative, refusals), refusals)
        return found

    def _narrowed(self, base: State, alternative: Constraint, refusals: list[Refusal]) -> State:
        """Return the state after what can be met of an alternative, whatever is in stock."""
        failing = {refusal.parameters.get("key", "") for refusal in refusals}
        return self._after(base, [r for r in alternative.stated if r.key not in failing])

    def _conflicts(self, base: State, alternative: Constraint) -> list[Refusal]:
        undefined = base.undefined(alternative)
        refusals = [self._unknown(key, alternative.merged.of(key)) for key in undefined]
        for key, asked in sorted(alternative.merged.items()):
            if key in undefined:
                continue
            known = base.requirements.of(key)
            if base.requirements.intersect_conflicts(_only(asked)):
                refusals.append(self._conflict(key, asked, values_text(known)))
                continue
            one = self._compiled.table.of([r for r in alternative.stated if r.key == key])
            if not base.narrowed_types(one, base.requirements.merged([asked])) or (
                key in self._index.kind_values
                and not self._index.allowed_kinds(base.requirements.merged([asked]))
            ):
                refusals.append(self._conflict(key, asked, self._offered_values(base, key)))
        return refusals

    def _unknown(self, key: str, asked: Requirement) -> Refusal:
        setters = self._compiled.label_setters
        known = {found for keys in setters.values() for found in keys}
        known.update(self._index.labels, self._compiled.nodes.labels)
        meant = near_label(key, known)
        edits: list[Edit] = []
        if meant:
            edits.append(RenameLabel(key, meant, setter_of(meant, setters)))
        if not asked.complement and asked.values:
            edits.append(SetLabel(self._pool.name, key, min(asked.values)))
        edits.append(DropRule(key))
        hint = f" (did you mean {meant}?)" if meant else ""
        return self._refuse(Reason.UNKNOWN_LABEL, *edits, key=key, hint=hint)

    def _conflict(self, key: str, asked: Requirement, found: str) -> Refusal:
        imageless = self._imageless(key, asked)
        if imageless is not None:
            return imageless
        return self._refuse(
            Reason.CONFLICT,
            *self._reconciling(key, asked),
            key=key,
            asked=values_text(asked),
            found=found,
        )

    def _reconciling(self, key: str, asked: Requirement) -> Iterator[Edit]:
        """Yield what might bring pod and pool together on a label."""
        allowed = self._pool.base.requirements.of(key) if self._pool.base else Requirement(key)
        known = allowed.values if not allowed.complement else self._known_values(key)
        for value in sorted(asked.values if not asked.complement else ()):
            meant = near_value(value, known)
            if meant:
                yield ReplaceValue(key, value, meant)
        if self._restricts(key):
            if not asked.complement and asked.values:
                yield AllowValues(self._pool.name, key, tuple(sorted(asked.values)))
            else:
                yield DropPoolRule(self._pool.name, key)
        yield from self._sold_otherwise(key, asked)
        yield DropRule(key)

    def _sold_otherwise(self, key: str, asked: Requirement) -> Iterator[Edit]:
        """Yield what the pool rules out of the ways in which the asked is sold."""
        in_kinds = self._index.kind_values
        if key not in in_kinds:
            return
        sold_so = self._index.allowed_kinds(_only(asked))
        for other, by_value in sorted(in_kinds.items()):
            if other != key and self._restricts(other):
                values = sorted(value for value, kinds in by_value.items() if kinds & sold_so)
                if values:
                    yield AllowValues(self._pool.name, other, tuple(values))

    def _known_values(self, key: str) -> Iterable[str]:
        every_kind = (1 << len(self._index.kinds)) - 1
        return self._index.values_of(key, self._index.everything, every_kind) or ()

    def _imageless(self, key: str, asked: Requirement) -> Refusal | None:
        """Return the refusal that says that types would do, had they an image."""
        offer = self._pool.offer
        would_do = [
            instance_type.name
            for instance_type in offer.imageless
            if key in instance_type.requirements
            and instance_type.requirements.of(key).intersects(asked)
        ]
        if not would_do:
            return None
        node_class = offer.node_pool.spec.template.spec.node_class_ref.name
        what = values_text(asked)
        edits: list[Edit] = [AddImage(self._pool.name, node_class, what)]
        if self._restricts(key) and not asked.complement and asked.values:
            edits.append(AllowValues(self._pool.name, key, tuple(sorted(asked.values))))
        edits.append(DropRule(key))
        detail = f"node class {node_class} has no image for {what}"
        return self._refuse(Reason.NO_IMAGE, *edits, key=key, detail=detail)

    def _offered_values(self, base: State, key: str) -> str:
        kinds = self._index.allowed_kinds(base.requirements)
        values = self._index.values_of(key, base.types, kinds) or {}
        allowed = base.requirements.of(key)
        return listed([value for value in sorted(values) if allowed.has(value)]) or "nothing"

    def _labelled_types(self, state: State) -> int:
        types = self._index.allowing_all(state.requirements.values()) & state.types
        root = self._pool.root
        return types or (root.types if root is not None else self._index.everything)


def _only(requirement: Requirement) -> Requirements:
    return Requirements([requirement])
