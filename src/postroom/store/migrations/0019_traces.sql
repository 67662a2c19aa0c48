-- The trace in which this work was asked for (a W3C traceparent), where traces are made: the work goes on in it.
ALTER TABLE work ADD COLUMN trace text;
