"""Examples of commands: each command has some, and each option stands in one. The help and docs/cli.md show
them; a test parses them as the command line does."""

import click

EXAMPLES = """
bulk up
bulk migrate
bulk grants worker bulk_worker
bulk doctor
bulk status
bulk sweep
bulk finalize
bulk prune --dry-run
bulk api
bulk import users.csv --resource users
bulk import users-*.ndjson.gz --resource users --mode upsert --match-on email
bulk import orders.csv --table shop.orders --on-error 5%
bulk import s3://partner/users.csv --resource users --idempotency-key monday --priority 10
bulk import users.csv --resource users --validate-only
bulk import users.csv --resource users --preview
bulk import german.csv --resource users --delimiter semicolon --quote "'" --escape '\\' --encoding cp1252
bulk import data.txt --resource users --format csv --compression gzip --no-header --fields email,name,role
bulk import prices.csv --table prices --decimal comma --date valid_from=%d.%m.%Y --null n/a --null -
bulk import report.xlsx --resource users --sheet Users --skip-lines 3
bulk import all.zip --resource users --member '*.csv' --ignore-extra
bulk import people.csv --resource users --map email=E-Mail --ignore fax --constant role=reader
bulk import people.csv --resource users --expression "name=first || ' ' || last"
bulk import errors J20260110_000777 --limit 50 --after-line 4711
bulk import errors J20260110_000777 --format csv --to rejects.csv
bulk import errors J20260110_000777 --as-source --to fix.csv
bulk import records J20260110_000777 unprocessed --to rest.csv
bulk import records J20260110_000777 failed --file 2
bulk import replay J20260110_000777
bulk import replay J20260110_000777 --from fix.csv --idempotency-key mended
bulk import undo J20260110_000777 --yes
bulk export users --format parquet --fields id,email --where role=admin --where 'created_at>=2026-01-01' --to exports/
bulk export users --order -created_at,name --compression zstd --to s3://bucket/users.csv.zst
bulk export users --format ndjson --to -
bulk export users --escape-formulas --idempotency-key 2026-01 --priority 10
bulk export --table shop.orders --format parquet
bulk export --query revenue.sql --format xlsx --to revenue.xlsx
bulk distribute submit request.json --idempotency-key monday --priority 10
bulk distribute run J20260110_000777
bulk distribute status J20260110_000777 --size 100 --after eyJ0Ijox
bulk distribute sample --indexes 20 --days 2 --constituents 50
bulk drops list --source inbox --state failed --limit 10
bulk drops retry users-2026-01.csv --source inbox
bulk drops scan --source inbox
bulk notify add https://hooks.example.org/bulk --owner ada --on job.failed --on job.dead_letters
bulk notify add https://hooks.example.org/ops --owner ops --on job.error_rate --all-owners --error-rate 0.05
bulk notify add http://10.0.0.7/hook --owner ops --on source.silent --silent-hours 12 --private
bulk notify list
bulk notify test sub_01
bulk notify remove sub_01
bulk resources list
bulk resources sample
bulk resources adopt shop.orders --name orders --provenance
bulk resources adopt shop.orders --again
bulk resources check orders
bulk process products.csv --recipe shop --idempotency-key monday --priority 10
bulk process rows.txt --recipe companies.toml --format csv --compression gzip
bulk process rows.csv --recipe shop --encoding cp1252 --delimiter semicolon --quote none --decimal comma
bulk process rows.csv --recipe shop --no-header --fields title,brand --skip-lines 2 --escape '\\' --constant shop=acme
bulk process rows.xlsx --recipe shop --sheet Products --map title=Produkt --ignore Note --null - --date born=%d.%m.%Y
bulk process rows.csv --recipe shop --expression "brand=split_part(maker, ' ', 1)"
bulk process rows.zip --recipe shop --member '*.csv' --ignore-extra
bulk process --query rows.sql --recipe shop --submit-only
bulk process --table shop.products --recipe shop
bulk recipes list
bulk recipes show shop
bulk recipes check shop.toml
bulk recipes try shop products.csv --rows 3
bulk recipes try shop rows.csv --encoding cp1252 --delimiter semicolon --quote none --decimal comma
bulk recipes try shop rows.csv --no-header --fields title,brand --skip-lines 2 --escape '\\' --constant shop=acme
bulk recipes try shop rows.xlsx --sheet Products --map title=Produkt --ignore Note --null - --date born=%d.%m.%Y
bulk recipes try shop rows.csv --expression "brand=split_part(maker, ' ', 1)"
bulk recipes try shop rows.zip --member '*.csv' --ignore-extra
bulk grid J20260110_000777 --format xlsx --to grid.xlsx
bulk grid J20260110_000777 --outcome matched --to-table companies --mode upsert
bulk reprocess J20260110_000777 --status NOT_FOUND --where brand=Acme --dry-run
bulk reprocess J20260110_000777 --item 000000012 --variant title --keep-attempts
bulk reprocess J20260110_000777 --error timeout --error-class transient
bulk kickoff J20260110_000777 --seconds 10
bulk review list J20260110_000777 --outcome matched --after 000000020 --size 50
bulk review decide J20260110_000777 000000012 accept Q42
bulk review apply J20260110_000777
bulk review thresholds J20260110_000777 --precision 0.98
bulk jobs --state failed --since 2026-01-31 --until 2026-02-28
bulk jobs --kind import_users --owner ada --origin api --text partner.csv --limit 50
bulk jobs --before J20260110_000777
bulk job show J20260110_000777 --watch
bulk dlq list --kind distribution --error-class permanent --older-than 12h --limit 10
bulk dlq list --job J20260110_000777
bulk dlq show 4711
bulk dlq redrive --job J20260110_000777 --not-found
bulk dlq redrive --kind import_users --error-class transient --older-than 1h
bulk dlq discard --job J20260110_000777 --yes
bulk dlq discard --kind distribution --error-class permanent --older-than 30d
bulk pause J20260110_000777
bulk resume J20260110_000777
bulk cancel J20260110_000777
bulk keys create --owner ada --scope read --expires 90d
bulk keys create --owner root --admin
bulk keys list
bulk keys revoke k_01
bulk audit --job J20260110_000777
bulk audit --actor ada --action cancel --owner bob --limit 10
"""


def show_in(group: click.Group, path: str = "bulk") -> None:
    """Let the help of every command end with its examples."""
    for name, command in group.commands.items():
        below = f"{path} {name}"
        if isinstance(command, click.Group):
            show_in(command, below)
        elif found := of(below):
            # Click keeps lines as they are behind \b.
            command.epilog = "\b\nExamples:\n" + "\n".join(f"  {each}" for each in found)


def of(path: str) -> list[str]:
    """Return the examples of a command. A file is imported without the word `file`."""
    if path == "bulk import file":
        others = ("errors ", "records ", "replay ", "undo ")
        found = (each for each in lines() if each.startswith("bulk import "))
        return [each for each in found if not each.removeprefix("bulk import ").startswith(others)]
    return [each for each in lines() if each == path or each.startswith(f"{path} ")]


def lines() -> list[str]:
    return EXAMPLES.strip().splitlines()
