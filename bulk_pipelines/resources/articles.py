"""Articles: what users write and publish."""

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Fill, Key, Reference, Resource
from bulk_pipelines.resources.rules import EmptyWhen, MaxLength, OneOf, Pattern

ARTICLES = Resource(
    name="articles",
    says="What users write and publish.",
    columns=(
        Column("id", ColumnKind.UUID, "identifies the article", fill=Fill.NEW_ID),
        Column(
            "slug",
            ColumnKind.TEXT,
            "the article's name in addresses, unique",
            required=True,
            rules=(
                Pattern(
                    r"^[a-z0-9]+(-[a-z0-9]+)*$",
                    "invalid_slug_format",
                    "kebab-case: small letters and digits in words joined by `-`",
                ),
                MaxLength(200),
            ),
            own_code="invalid_slug_format",
        ),
        Column("title", ColumnKind.TEXT, "the headline", required=True, rules=(MaxLength(300),), searchable=True),
        Column("description", ColumnKind.TEXT, "a summary", searchable=True),
        Column("body", ColumnKind.TEXT, "the text", required=True, searchable=True),
        Column("author_id", ColumnKind.UUID, "the user who wrote it", required=True),
        Column("tags", ColumnKind.TEXT_LIST, "keywords", fill=Fill.EMPTY_LIST, own_code="invalid_tags"),
        Column("published_at", ColumnKind.TIMESTAMP, "when it was published"),
        Column(
            "status",
            ColumnKind.TEXT,
            "whether it is published",
            required=True,
            rules=(OneOf(("draft", "published"), "invalid_status"),),
            own_code="invalid_status",
        ),
        Column("created_at", ColumnKind.TIMESTAMP, "when the article was made", fill=Fill.IMPORT_TIME),
        Column("updated_at", ColumnKind.TIMESTAMP, "when the article was last changed", fill=Fill.CHANGE_TIME),
    ),
    keys=(
        Key("id", "duplicate_id", "articles_pkey"),
        Key("slug", "duplicate_slug", "articles_slug_key"),
    ),
    references=(Reference("author_id", "users", "invalid_author_id", "articles_author_id_fkey"),),
    record_rules=(EmptyWhen("published_at", "status", "draft", "draft_with_published_at"),),
)
