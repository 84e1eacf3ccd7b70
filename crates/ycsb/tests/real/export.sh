#!/usr/bin/env bash
# export.sh - counts what the real YCSB asks for, and keeps the counts in histograms/.
#
# Needs Maven and Java 11 or newer, and brings YCSB from Maven's repository. `make test` only reads what is kept. The choices
# of YCSB are not seeded: each run counts others.
set -euo pipefail
cd "$(dirname "$0")"

jars=$(mktemp -d)
trap 'rm -rf "$jars"' EXIT
mvn -q -B -f pom.xml dependency:copy-dependencies -DoutputDirectory="$jars"
mkdir -p histograms
java -cp "$jars/*" Export.java histograms
