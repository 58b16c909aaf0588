"""Alembic's entry point; `Records.migrate` hands it an open connection."""

from alembic import context

from analyst_server.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
