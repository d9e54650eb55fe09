"""How much a position depends on the video: scorers, and the line from which a position is an anchor.

Relevance belongs to the position that predicts a token, given the text before it, not to the word that then stands there.
"""

from lvspec_core.relevance.attention import AttentionShare
from lvspec_core.relevance.calibration import LIVE, Calibration
from lvspec_core.relevance.live import Annotator, LiveScorer, teacher_forced_scores
from lvspec_core.relevance.probe import Probe

__all__ = ["LIVE", "Annotator", "AttentionShare", "Calibration", "LiveScorer", "Probe", "teacher_forced_scores"]
