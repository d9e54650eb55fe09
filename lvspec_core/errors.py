"""Errors that carry one sentence a user can act on.

The page shows the sentence as a notice; the command line prints it on stderr and exits 2.
"""


class UserError(Exception):
    """Something the user can put right; ``str(error)`` is one plain sentence that says how."""


class VideoError(UserError):
    """The file cannot be used as a video."""


class PairError(UserError):
    """The target/draft pair is unknown, cannot be loaded or does not fit together."""


class SettingsError(UserError):
    """A setting is out of range or contradicts another."""


class RecordError(UserError):
    """A race file cannot be read."""


class DataError(UserError):
    """A data set or the results of an evaluation cannot be used."""


class WorkerError(UserError):
    """The process that holds the models was lost, or failed in a way that the user cannot put right."""
