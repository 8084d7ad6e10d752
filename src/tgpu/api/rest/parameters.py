"""What stands in a path or a query, with its bound."""

from typing import Annotated

from annotated_types import MaxLen

# A name of any kind: of a job, a tenant, or "tenant:queue". A bit longer than those can be, so that
# what is only a little too long is not found, as any other name that nobody has.
Name = Annotated[str, MaxLen(512)]
Words = Annotated[str, MaxLen(4096)]  # to search for, or several with commas
