"""Comments: what users say about articles."""

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Fill, Key, Reference, Resource
from bulk_pipelines.resources.rules import MaxWords

COMMENTS = Resource(
    name="comments",
    says="What users say about articles.",
    columns=(
        Column("id", ColumnKind.UUID, "identifies the comment", fill=Fill.NEW_ID),
        Column("article_id", ColumnKind.UUID, "the article it is about", required=True),
        Column("user_id", ColumnKind.UUID, "the user who wrote it", required=True),
        Column(
            "body", ColumnKind.TEXT, "the text", required=True, rules=(MaxWords(500, "body_too_long"),), searchable=True
        ),
        Column("created_at", ColumnKind.TIMESTAMP, "when the comment was made", fill=Fill.IMPORT_TIME),
    ),
    keys=(Key("id", "duplicate_id", "comments_pkey"),),
    references=(
        Reference("article_id", "articles", "invalid_article_id", "comments_article_id_fkey"),
        Reference("user_id", "users", "invalid_user_id", "comments_user_id_fkey"),
    ),
)
