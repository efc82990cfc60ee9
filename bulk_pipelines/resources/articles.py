"""Articles: what users write and publish."""

from bulk_pipelines.columns.kinds import Kind
from bulk_pipelines.resources.declaration import Column, Fill, Key, Reference, Resource
from bulk_pipelines.resources.rules import EmptyWhen, MaxLength, OneOf, Pattern

ARTICLES = Resource(
    name="articles",
    says="What users write and publish.",
    columns=(
        Column("id", Kind.UUID, "identifies the article", fill=Fill.NEW_ID),
        Column(
            "slug",
            Kind.TEXT,
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
        Column("title", Kind.TEXT, "the headline", required=True, rules=(MaxLength(300),), searchable=True),
        Column("description", Kind.TEXT, "a summary", searchable=True),
        Column("body", Kind.TEXT, "the text", required=True, searchable=True),
        Column("author_id", Kind.UUID, "the user who wrote it", required=True),
        Column("tags", Kind.TEXT_LIST, "keywords", fill=Fill.EMPTY_LIST, own_code="invalid_tags"),
        Column("published_at", Kind.TIMESTAMP, "when it was published"),
        Column(
            "status",
            Kind.TEXT,
            "whether it is published",
            required=True,
            rules=(OneOf(("draft", "published"), "invalid_status"),),
            own_code="invalid_status",
        ),
        Column("created_at", Kind.TIMESTAMP, "when the article was made", fill=Fill.IMPORT_TIME),
        Column("updated_at", Kind.TIMESTAMP, "when the article was last changed", fill=Fill.CHANGE_TIME),
    ),
    keys=(
        Key("id", "duplicate_id", "articles_pkey"),
        Key("slug", "duplicate_slug", "articles_slug_key"),
    ),
    references=(Reference("author_id", "users", "invalid_author_id", "articles_author_id_fkey"),),
    record_rules=(EmptyWhen("published_at", "status", "draft", "draft_with_published_at"),),
)
