// SPDX-FileCopyrightText: The slurmscope authors
// SPDX-License-Identifier: Apache-2.0
//
// The user of slurmscope's store, who may read and write its one database. dbAdmin is for `slurmscope store vacuum`.
db.getSiblingDB("slurmscope").createUser({
  user: "slurmscope",
  pwd: process.env.SLURMSCOPE_PASSWORD,
  roles: ["readWrite", "dbAdmin"],
});
