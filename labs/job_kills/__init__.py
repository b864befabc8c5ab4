"""Jobs of Spark that are killed: what each leaves must be what its page promises."""
