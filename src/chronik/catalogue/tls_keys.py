"""The keys of TLS. Each listener may have its own value: `listener.name.<name>.<key>` overrides `<key>`.

`chronik.broker.settings.tls` reads them; Settings has no typed attribute for them.
"""

from __future__ import annotations

from chronik.catalogue.notation import read_table

TLS_KEYS = read_table("""
[TLS]
ssl.keystore.type  string  JKS  per-broker
    Format of the key store: PEM, PKCS12 or JKS. A store that keytool of Java 9 or later made is PKCS12, whatever
    this key says; the older JKS format is not read.
ssl.keystore.location  string  -  per-broker
    File with the certificate chain and the private key. A PEM file contains both.
ssl.keystore.password  password  -  per-broker
    Password of a PKCS12 key store.
ssl.key.password  password  -  per-broker
    Password of the private key in PEM, if it is encrypted.
ssl.keystore.certificate.chain  password  -  per-broker
    Certificate chain as PEM text, instead of a file. Needs ssl.keystore.key.
ssl.keystore.key  password  -  per-broker
    Private key as PEM text, instead of a file.
ssl.truststore.type  string  JKS  per-broker
    Format of the trust store: PEM, PKCS12 or JKS, as for ssl.keystore.type.
ssl.truststore.location  string  -  per-broker
    File with the certificates of the authorities that sign the certificates of clients and nodes.
ssl.truststore.password  password  -  per-broker
    Password of a PKCS12 trust store.
ssl.truststore.certificates  password  -  per-broker
    Trusted certificates as PEM text, instead of a file.
ssl.client.auth  string  none  per-broker  required|requested|none
    Whether clients present a certificate: none, requested or required.
ssl.enabled.protocols  list  TLSv1.2,TLSv1.3  per-broker
    TLS versions: TLSv1.2, TLSv1.3.
ssl.cipher.suites  list  ''  per-broker
    Cipher suites by their IANA names; empty: those of OpenSSL. Of TLS 1.3 name all three suites or none.
ssl.endpoint.identification.algorithm  string  https  per-broker
    Whether this node checks that certificates of other nodes name their host: https, or empty for no check.
ssl.principal.mapping.rules  string  DEFAULT  read-only
    Rules that make the name of a principal of a certificate's subject: RULE:pattern/replacement/[LU] or DEFAULT,
    separated by commas. The first that matches the whole subject counts; if none does, the connection is closed.
ssl.allow.dn.changes  boolean  false  read-only
    Allow a new certificate to have another subject while the node runs.
ssl.allow.san.changes  boolean  false  read-only
    Allow a new certificate to lack host names of the old one while the node runs.
chronik.ssl.reload.interval.ms  long  10000  read-only  100..
    Interval at which the files of key stores and trust stores are checked for changes. New connections use the new
    certificates. If a new file cannot be used, the node keeps the old certificates and raises an alarm.
chronik.quorum.principals  string  ''  read-only
    Principals of the nodes of the quorum, for a quorum listener with TLS: User:CN=node1 and so on, separated by
    semicolons. Other certificates are refused there, besides those of super.users.
chronik.admin.security.protocol  string  PLAINTEXT  read-only  PLAINTEXT|SSL
    Protocol of the admin listener. With SSL its keys may be set as listener.name.chronik-admin.ssl.*
""")
