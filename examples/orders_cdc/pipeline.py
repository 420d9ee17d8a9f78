"""Changes of orders become a table of orders as they are now; nothing that is wrong with a change gets lost.

The topic `orders` carries changes: the key is the order's number, the value its new state as JSON, null when the order
was deleted. Changes may come late and out of order, and some are broken.

    chronik topic create orders --partitions 3
    chronik pipeline dry-run examples/orders_cdc/pipeline.py
    chronik pipeline run examples/orders_cdc/pipeline.py --once --report run.html
    chronik dlq show orders --summary
    chronik dlq replay examples/orders_cdc/pipeline.py --with examples/orders_cdc/fix.py
"""

from pyspark.sql import functions as F

from chronik.pipeline import bronze, expect, gold, silver


@bronze(
    topic="orders",
    decode="json",
    key="id long",
    schema="customer string, amount double, status string, updated timestamp",
)
def order_changes(records):
    """Every change that can be decoded, in the order of the log. What cannot be is in orders.dlq, byte for byte."""
    return records


@silver(
    keys=["id"],
    sequence_by="updated",  # of two changes the later one stands, whichever arrived first
    delete_when="_deleted",  # a null value: the order is gone
    expectations=[
        expect("amount is not negative", "amount >= 0", on_fail="dlq"),
        expect("status is known", "status IN ('new', 'paid', 'shipped')", on_fail="warn"),
    ],
)
def orders(order_changes):
    """Orders as they are now."""
    return order_changes.withColumn("customer", F.lower(F.trim("customer")))


@gold()
def spending(orders):
    """What each customer has spent, computed anew when an order has changed."""
    return orders.groupBy("customer").agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))
