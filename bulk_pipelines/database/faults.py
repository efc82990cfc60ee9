"""What an error of PostgreSQL says about whether trying again can help."""

import psycopg

# Classes are the first two characters of the code. These are about connections, transactions that met others,
# resources, operators, and the system.
PASSING_CLASSES = frozenset({"08", "40", "53", "57", "58"})
# What was asked for is in use, is locked, or is read-only for now.
PASSING_CODES = frozenset({"55006", "55P03", "25006"})
# These are about a feature that is not supported, a value, a name or a right, a view's condition, and a limit of the
# program.
LASTING_CLASSES = frozenset({"0A", "22", "42", "44", "54"})
PROTOCOL_VIOLATION = "08P01"


def passes(error: psycopg.Error) -> bool:
    """Whether the error may pass: the server could not do this now, and may do the very same later."""
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code != PROTOCOL_VIOLATION and (code[:2] in PASSING_CLASSES or code in PASSING_CODES)


def lasts(error: psycopg.Error) -> bool:
    """Whether the error lasts: the server will give the same answer each time. Some errors neither pass nor last,
    because nobody can tell."""
    code = error.sqlstate
    return code is not None and (code == PROTOCOL_VIOLATION or code[:2] in LASTING_CLASSES)


def is_raised_on_purpose(error: psycopg.Error) -> bool:
    """Whether the error comes from a RAISE in somebody's function. Its code is then what they chose, and tells nothing
    of the server."""
    return error.diag.source_function == "exec_stmt_raise"
