"""What an error of PostgreSQL says about trying again."""

import psycopg

# By the first two characters of the code: connections, transactions that met others, resources, operators, the system.
PASSING_CLASSES = frozenset({"08", "40", "53", "57", "58"})
# In use, locked, read-only for now.
PASSING_CODES = frozenset({"55006", "55P03", "25006"})
# Not supported, a value, a name or a right, a view's condition, a limit of the program.
LASTING_CLASSES = frozenset({"0A", "22", "42", "44", "54"})
PROTOCOL_VIOLATION = "08P01"


def passes(error: psycopg.Error) -> bool:
    """Whether the server cannot do it now, and may do the very same later."""
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code != PROTOCOL_VIOLATION and (code[:2] in PASSING_CLASSES or code in PASSING_CODES)


def lasts(error: psycopg.Error) -> bool:
    """Whether the server will say the same each time. Of some errors nobody can tell."""
    code = error.sqlstate
    return code is not None and (code == PROTOCOL_VIOLATION or code[:2] in LASTING_CLASSES)


def is_raised_on_purpose(error: psycopg.Error) -> bool:
    """Whether a RAISE of somebody's function said it: then its code is what they chose, and tells nothing of the
    server."""
    return error.diag.source_function == "exec_stmt_raise"
