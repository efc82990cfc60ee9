"""Users: the people who write articles and comments."""

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Fill, Key, Resource
from bulk_pipelines.resources.rules import MaxLength, OneOf, Pattern

# Addresses are ASCII only, so that lower case means the same to PostgreSQL in every locale, to Arrow and to Python.
EMAIL = (
    r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@([A-Za-z0-9]+(-+[A-Za-z0-9]+)*\.)+[A-Za-z]{2,}$"
)

USERS = Resource(
    name="users",
    says="The people who write articles and comments.",
    columns=(
        Column("id", ColumnKind.UUID, "identifies the user", fill=Fill.NEW_ID),
        Column(
            "email",
            ColumnKind.TEXT,
            "the address, unique whatever its case",
            required=True,
            rules=(
                Pattern(EMAIL, "invalid_email_format", "an address of the form `name@host.domain`"),
                MaxLength(254),
            ),
            own_code="invalid_email_format",
        ),
        Column(
            "name", ColumnKind.TEXT, "what the user is called", required=True, rules=(MaxLength(200),), searchable=True
        ),
        Column(
            "role",
            ColumnKind.TEXT,
            "what the user may do",
            required=True,
            rules=(OneOf(("admin", "editor", "author", "reader"), "invalid_role"),),
            own_code="invalid_role",
        ),
        Column(
            "active", ColumnKind.BOOLEAN, "whether the account is in use", fill=Fill.TRUE, own_code="invalid_active"
        ),
        Column("created_at", ColumnKind.TIMESTAMP, "when the user was made", fill=Fill.IMPORT_TIME),
        Column("updated_at", ColumnKind.TIMESTAMP, "when the user was last changed", fill=Fill.CHANGE_TIME),
    ),
    keys=(
        Key("id", "duplicate_id", "users_pkey"),
        Key("email", "duplicate_email", "users_email_key", ignores_case=True),
    ),
)
