"""Making the page that describes each resource, from the declarations."""

from bulk_pipelines import resources
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Resource
from bulk_pipelines.resources.reasons import REASONS

ANY_TABLE = """\
## Any table

Every table of the database can be imported into and exported, without a declaration:

```sh
bulk import orders.csv --table shop.orders
bulk export --table shop.orders --format parquet
```

Columns, types, defaults, NOT NULL, keys, foreign keys, enums, domains, generated and identity columns are read from
PostgreSQL's catalogue into the same declaration that users, articles and comments have. It goes with the job's
request, so every lane has the same; the plan compares it with the table, and refuses the import in one line if the
two differ.

`bulk resources adopt shop.orders` writes this declaration to `resources/orders.toml` (`BULK_RESOURCES` names
another folder). From then on `orders` is a resource like users: `--resource orders`, `bulk export orders`, a rule
in `drops.toml`, and in Dagster, when its code location is loaded again, two assets whose lineage follows the
foreign keys. Edit the file, and keep it in git. `bulk resources check` says where it and the table differ;
`bulk resources adopt shop.orders --again` brings it up to date and keeps what you wrote. A table whose name means
something else in Dagster (`images`, `config`, `class`) is called with its schema, `shop_images`; `--name` gives
another name.

| field of a column | what it is for |
| --- | --- |
| `in_files` | the name of the column in files |
| `required`, `refuse_blank` | no record without a value; no text of white space alone |
| `has_default` | the table fills the column in when the file does not have it |
| `one_of`, `pattern`, `max_length`, `max_words` | rules for text |
| `code` | the code of the reason for rejecting a value |
| `fill` | what stands in for a missing value: `new_id`, `import_time`, `change_time` |
| `searchable` | whether exports may ask for words (`~=`) |
| `type`, `stored_as`, `kind` | the type in PostgreSQL, the type below its domain, and how values are read: leave them |
| `takes_empty` | whether an empty text is a value, for a type of the kind `other` |

`[[keys]]` and `[[references]]` have a `code`, too; `[[rules]]` say that a column is `empty` `when` another one
`has` a value.

`--again` writes into the file what the table says by now and did not say when the file was written. All else stays as
it is: comments, the order, rules, codes, names in files, what you have removed or narrowed, and references of your
own. A column that is gone from the table goes with the comment above it; a column with a new name is a new column. If
the type of a column changes, its rules stay where they are for text still, and `max_length` is the shorter one. The
table `[catalogue]` at the end keeps what PostgreSQL said the last time: leave it. A file of an older version has none;
then what you have removed comes back once.

- **Values are never rounded, cut or wrapped.** What does not fit is rejected with the value and PostgreSQL's own
  words, also where PostgreSQL itself would drop a part: the time of a `date`, the date of a `time`, the offset of a
  `timestamp` without one. That holds for the elements of arrays, the bounds of ranges, the fields of composite types
  and domains over any of these, too: PostgreSQL takes their texts apart, and each part is asked for.
  Rows go in by binary COPY if all their values are written plainly: numbers without an exponent and with up to
  nineteen digits, ISO dates and times, JSON, arrays of one dimension. If a column of a batch has values that only
  PostgreSQL can read (intervals, addresses of networks, ranges, `infinity`, longer numbers), the rows of that batch go
  in by text COPY. Only the real kinds are rounded to the nearest number that they have, as everywhere.
- **Constraints that nobody declared** (CHECK, EXCLUDE, partial and expression indexes, triggers) name the records
  that break them: `refused_by_table`, with the constraint. Which of two records that exclude each other stays is
  then a matter of which batch came first; for keys it is always the first in the file (insert) or the last
  (upsert). A record that was refused for the sake of a row is tried again if the import takes that row back.
- **A table that changes while it is imported into**: columns, constraints, triggers and indexes may come, and columns
  go that the file does not have. If a column of the file goes or gets another type, or another table gets the name,
  the records that are left are not loaded, and the error says what to do.
- **Without our columns** (`import_job`, `import_line`, `import_revised`) exactly-once, first-wins, rejects and
  replay work all the same: while an import runs, a ledger in a table of its own holds the keys and lines of the
  rows it has loaded, and a row counts as the import's own for as long as it has the same `xmin` as its entry.
  Tracing and undo need to know this for ever. So `adopt --provenance` adds the three columns to the table, a
  trigger that notes changes, and a block range index. They are columns and not a side table, because a side table
  would have to be as large as the table, and a table without a key has nothing that it could be joined by.
- A table without a key takes inserts only. So does one that others inherit: its keys say nothing of their rows, which a
  query of it shows as well. Partitioned tables, other schemas and quoted names work: `--table
  'shop."Order Lines"'`. Views, foreign tables, tables whose row-level security holds for this role, and tables that
  it may not read or write are refused in one line that names the GRANT.
- A file needs the columns that the table needs. A column with a default that the file has must have a value in
  every record; a JSON file has such a column if its first record has it. All files of one import must have the same
  columns.
- What is exported as CSV, NDJSON, JSON or Parquet imports to the identical table, with two exceptions: JSON's own
  `null` in a json column is no value in NDJSON and JSON, and Parquet refuses infinite dates and times. Arrays are
  written in PostgreSQL's form; JSON arrays, also those of arrays, are read as well.
- Rows may refer to rows of their own table, in any order and across batches: a record is rejected
  (`invalid_reference`) if the row that it names is neither there nor loaded with it. So all records of such a table
  that had to wait for others go in by one statement."""

ABOUT = """\
Users, articles and comments are declared once, in `bulk_pipelines/resources/`. Reading, checking, loading, exports,
filters and this page follow the declaration; the tables hold the same rules as constraints. A file must have every
required column, may leave out the others, and may have them in any order. An embedded database has these tables; in
another one `bulk resources sample` makes them."""


def page(notice: str) -> str:
    parts = ["# Resources", notice, ABOUT]
    for resource in resources.RESOURCES:
        parts += section(resource)
    parts += [ANY_TABLE]
    parts += ["## How values are written", bullets([f"{kind.value}: {kind.text_form}" for kind in ColumnKind])]
    parts += [
        "## Reasons for rejecting a record",
        table(["code", "meaning"], [[f"`{code}`", text] for code, text in REASONS.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def section(resource: Resource) -> list[str]:
    parts = [f"## {resource.name}", resource.says]
    parts.append(table(["column", "kind", "", "what it is"], [row(column) for column in resource.columns]))
    rules = [f"`{column.name}`: {rule.says} (`{rule.code}`)" for column in resource.columns for rule in column.rules]
    rules += [
        f"`{key.column}` is unique{', whatever its case' if key.ignores_case else ''} (`{key.code}`)"
        for key in resource.keys
    ]
    rules += [
        f"`{each.column}` is the id of one of the {each.resource} (`{each.code}`)" for each in resource.references
    ]
    rules += [f"{rule.says} (`{rule.code}`)" for rule in resource.record_rules]
    return [*parts, bullets(rules)]


def row(column: Column) -> list[str]:
    stand_in = f"if missing: {column.fill.value}" if column.fill else "may be missing"
    need = "required" if column.required else stand_in
    return [f"`{column.name}`", column.kind.value, need, column.says]


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
