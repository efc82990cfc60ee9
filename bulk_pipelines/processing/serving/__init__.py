"""A reference is offered as a service of the W3C Reconciliation API, for OpenRefine and other clients. Requests and
answers are JSON values here; the API has the HTTP.

`offered` finds the reference by the name of its recipe; `asking` answers queries, whatever version they came in;
`suggesting` completes what people type; `extending` shows more of an entry; `stable` and `draft` speak the versions 0.2
and 1.0.
"""
