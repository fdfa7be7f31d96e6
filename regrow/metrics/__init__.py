"""What Prometheus scrapes: a catalogue of metrics, a collector that reads Redis at scrape time, an HTTP server.

Nothing is counted in this process: the counters are bumped in Redis by the step that did the work. Any number of
exporters may run, and none has anything to clean up.
"""
