"""The console: pages for people who watch jobs and mend them.

`application` puts the `pages` together, `access` says who looks at one, and `frame` draws what stands around each of
them. `controls` are what can be done to a job, `file_options` what can be told of a file, and `shown` says how values
look. `live` has the states of jobs that
pages show, `news` draws parts of open pages anew, and `statics` are the files that pages load. The console calls the
same functions of the slices as the command line and the API do.
"""
