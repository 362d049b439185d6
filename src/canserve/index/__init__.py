"""What every released build supports, shipped with the package.

``release_history()``: the engines' past. ``transformers_table()``: what each release of transformers offers.
Both load their data when they are first asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.facts import Fact
    from canserve.index.history import ReleaseHistory
    from canserve.subjects.build import TransformersTable


def release_history() -> ReleaseHistory:
    """The past of all engines."""
    from canserve.index.history import release_history as history

    return history()


def transformers_table() -> Fact[TransformersTable]:
    """All indexed releases of transformers; Missing when no data is shipped or it is damaged."""
    from canserve.index.transformers_releases import shipped_table

    return shipped_table()
