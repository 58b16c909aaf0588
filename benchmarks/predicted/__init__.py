"""What `odc-analyst plan` predicts of a round, beside what played ones took."""
