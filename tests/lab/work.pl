#!/usr/bin/perl
# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
#
# Work of which it is known what it takes, for jobs of the lab: what an agent measures is compared with it. Perl, because
# that is what the lab's Debian has.
#
#   work.pl OPTIONS     does what it is told, then writes NAME.ready into the folder, and holds what it has until it is
#                       killed, without a further use of the processor
#
#   --seconds SECONDS   ends by itself after so long, and writes the processor time of all of it into NAME.used
#   --folder DIR        where its files are
#   --burners N         processes that burn the processor, each …
#   --user SECONDS      … in user mode for so long
#   --system SECONDS    … and in the kernel for so long
#   --duty SHARE        … and after that, until the end, as much as makes this share of all its time; without them it
#                       does so itself
#   --spinners N        threads besides the first, which do the same
#   --idlers N          processes that only sleep
#   --threads N         threads besides the first, which only sleep
#   --memory MIB        memory of its own, all of it touched
#   --files N           files that are open
#   --nice N            gives way to others, as nice does, from when it has these
#   --bytes N           bytes that are written to the disk, and then read from it, …
#   --calls N           … each in so many calls
#   --beat              burns without end, and appends a line to NAME.beat ten times a second: the time, and the
#                       processor time of its own until then
#
# NAME is JOB.STEP.TASK. NAME.ready has a line for each thing: "user 3.02", "system 0.1", "cores 0-1", "evicted 1".
use strict;
use warnings;
use Config;
use Fcntl;
use Getopt::Long;
use IO::Handle;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_THREAD_CPUTIME_ID);

my %o = (folder => '/tmp', seconds => 86400 * 365, burners => 0, user => 0, system => 0, duty => 0, spinners => 0,
    idlers => 0, threads => 0, memory => 0, files => 0, nice => 0, bytes => 0, calls => 1, beat => 0);
GetOptions(\%o, 'folder=s', 'seconds=f', 'burners=i', 'user=f', 'system=f', 'duty=f', 'spinners=i', 'idlers=i',
    'threads=i', 'memory=i', 'files=i', 'nice=i', 'bytes=i', 'calls=i', 'beat') or exit 2;
my $start = clock_gettime(CLOCK_MONOTONIC);
my $name = join '.', $ENV{SLURM_JOB_ID} // 0, $ENV{SLURM_STEP_ID} // 'batch', $ENV{SLURM_PROCID} // 0;

# So that the files that are open are those it was told of.
close $_ for *STDIN, *STDOUT, *STDERR;

sub passed { clock_gettime(CLOCK_MONOTONIC) - $start }

sub hold { while ((my $left = $o{seconds} - passed()) > 0) { sleep $left } }

# What it was kept from it does later, and what it has done already, such as to touch its memory, counts: its share is the
# same on a slow machine, and on one that others use.
sub spin {
    my $n = 0;
    while ((my $now = passed()) < $o{seconds}) {
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID) < $o{duty} * $now) { $n++ for 1 .. 2_000 }
        else { sleep 0.02 }
    }
}

sub burn {
    my $n = 0;
    while ((times)[0] < $o{user}) { $n++ for 1 .. 200_000 }
    return unless $o{system};
    # Zeroes are made in the kernel, and there are many in a call.
    open my $zero, '<', '/dev/zero' or die "/dev/zero: $!";
    while ((times)[1] < $o{system}) { sysread $zero, my $buffer, 1 << 22 }
}

# Processes first, while there is nothing that they would share.
pipe my $from, my $to or die "pipe: $!";
for (1 .. $o{burners}) {
    next if fork;
    burn();
    my ($user, $system) = times;
    syswrite $to, sprintf "%.2f %.2f\n", $user, $system;
    if ($o{duty}) { spin() } else { hold() }
    exit;
}
for (1 .. $o{idlers}) {
    next if fork;
    hold();
    exit;
}

if ($o{threads} || $o{spinners}) {
    require threads;
    threads->create(\&hold)->detach for 1 .. $o{threads};
    threads->create(\&spin)->detach for 1 .. $o{spinners};
}

my $memory = "\1" x ($o{memory} << 20);

my @files = map { open my $file, '>', "$o{folder}/$name.open.$_" or die "open: $!"; $file } 1 .. $o{files};
setpriority 0, 0, $o{nice};

my $evicted = 0;
if ($o{bytes}) {
    my $size = int $o{bytes} / $o{calls};
    my $piece = "\1" x $size;
    sysopen my $file, "$o{folder}/$name.data", O_RDWR | O_CREAT | O_TRUNC or die "open: $!";
    for (1 .. $o{calls}) { syswrite($file, $piece) == $size or die "write: $!" }
    $file->sync or die "fsync: $!";
    # What is in memory would not be read from the disk: posix_fadvise, POSIX_FADV_DONTNEED.
    my %fadvise = ('x86_64' => 221, 'aarch64' => 223);
    my ($machine) = $Config{archname} =~ /^([^-]+)/;
    $evicted = 1 if $fadvise{$machine} && syscall($fadvise{$machine}, fileno $file, 0, 0, 4) == 0;
    sysseek $file, 0, 0;
    for (1 .. $o{calls}) { sysread($file, $piece, $size) == $size or die "read: $!" }
    close $file;
}

my ($user, $system) = (0, 0);
for (1 .. $o{burners}) {
    my ($more, $other) = split ' ', <$from>;
    $user += $more;
    $system += $other;
}
open my $status, '<', '/proc/self/status' or die "status: $!";
my ($cores) = map { /^Cpus_allowed_list:\s+(\S+)/ ? $1 : () } <$status>;
close $status;
my ($own, $kernel) = times;
open my $ready, '>', "$o{folder}/$name.new" or die "open: $!";
printf $ready "user %.2f\nsystem %.2f\ncores %s\nevicted %d\n", $user + $own, $system + $kernel, $cores, $evicted;
close $ready or die "write: $!";
rename "$o{folder}/$name.new", "$o{folder}/$name.ready" or die "rename: $!";

if ($o{beat}) {
    open my $beat, '>', "$o{folder}/$name.beat" or die "open: $!";
    my ($next, $n) = (0, 0);
    while (1) {
        $n++ for 1 .. 20_000;
        my $now = clock_gettime(CLOCK_REALTIME);
        next if $now < $next;
        $next = $now + 0.1;
        syswrite $beat, sprintf "%.6f %.6f\n", $now, clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    }
}
if ($o{duty} && !$o{burners} && !$o{spinners}) { spin() } else { hold() }
1 while wait != -1;
open my $used, '>', "$o{folder}/$name.used" or die "open: $!";
my $sum = 0;
$sum += $_ for times;
printf $used "%.2f\n", $sum;
