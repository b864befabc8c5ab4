"""Decodes bodies: text, JSON, Avro, Protobuf.

column      makes the columns of bodies: decoded, raw, error
form        checks the options of bodies, and decodes columns of them
failure     the reasons why a body does not decode
ddl         reads a schema from Spark's DDL or JSON form, and writes it as Spark does
json_body   JSON of a schema, a body at a time
json_columns  JSON of a schema, many bodies at once
avro        Avro of a schema
protobuf    Protobuf of a descriptor set
registry    the head that a schema registry's clients write, and the schemas that it names
"""
