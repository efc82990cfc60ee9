"""What people do with an import that is over: download its records by their `outcomes`, mend its rejects (`mending`)
and import them again (`replaying`), or take the import back (`undo`). `commands` offers that on the command line."""
