// An institution: what it is, and its way through a round. Each step may be run again.

import {
  createPrivateKey, createPublicKey, generateKeyPairSync, randomInt,
} from 'node:crypto';

import { drawBasis, expand } from './anchor.js';
import { equal } from './bytes.js';
import { TrustRoot, pemToDer, toPem } from './certificates.js';
import { isSignedBy, merkleRoot, readCheckpoint } from './checkpoint.js';
import { schemaWidth } from './columns.js';
import {
  acknowledge, changeOfBasis, checkDownlinkManifest, fetchDownlink,
} from './downlink.js';
import { refuse } from './errors.js';
import { evaluate } from './evaluate.js';
import { Connection, MESSAGE } from './http.js';
import { readInvitation, requestCertificate } from './invitation.js';
import { decode, isId } from './layout.js';
import {
  checkChain, checkDownlink, checkLedger, checkReceipt, isLeftOut, releasedBy, trainedOn,
} from './ledger.js';
import { matrix, multiply } from './matrix.js';
import { ledgerPage } from './messages.js';
import { readModel } from './onnx.js';
import { anchorFor, byAnalyst, keyOf, receiptFor, termsFor } from './received.js';
import { SUITE, generate, rawPublic } from './seal.js';
import { requireSignedBy, sign } from './signed.js';
import { encodeLabels, encodeRows } from './table.js';
import { featuresOf, latentDimsOf, rowRevealing, schemaOf } from './terms.js';
import { checkManifest, dithered, makeArrays, sendUplink, signalKept } from './uplink.js';
import { plainWords, plainWordsDigest } from './words.js';

const now = () => Math.floor(Date.now() / 1000);
const doubles = (values) => Buffer.from(Float64Array.from(values).buffer);
const fromDoubles = (bytes) => new Float64Array(Uint8Array.from(bytes).buffer);

/** What nobody may send who cannot do what the terms ask for. */
function checkWeCan(terms) {
  if (terms.joined_rows) refuse('input-error', 'this client takes no part in rounds that join rows');
  if (terms.sums) refuse('input-error', 'this client takes no part in rounds with sums');
  if (terms.downlink !== 'change-of-basis-and-model') refuse('input-error', 'this client trains no model on anchor predictions');
  if (terms.sealing_suite) refuse('input-error', `this client opens no seal by the suite ${terms.sealing_suite}`);
  if (terms.anchor.kind === 'public') refuse('input-error', 'this client takes no public anchor');
  if (Object.values(terms.exposure ?? {}).some((limit) => limit !== null)) refuse('input-error', 'these terms ask for attacks on the own rows, which this client cannot try');
}

export class Institution {
  constructor(home) {
    this.home = home;
    if (!home.has('member.json')) refuse('certificate-required', 'join first: odc-node join INVITATION');
    this.member = home.json('member.json');
    this.root = new TrustRoot(pemToDer(home.read('root.pem').toString()));
    if (home.has('revocations.crl')) this.root.adopt(home.read('revocations.crl'));
    const keyPem = home.read('identity.key').toString();
    const certificatePem = home.has('certificate.pem') ? home.read('certificate.pem').toString() : null;
    this.author = { key: createPrivateKey(keyPem), certificate: certificatePem && pemToDer(certificatePem) };
    this.connection = new Connection(this.member.analyst_url, home.read('root.pem').toString(), certificatePem && { keyPem, certificatePem });
  }

  close() {
    this.connection.close();
  }

  /** Write down an invitation whose fingerprint a person has compared, with a new key. */
  static begin(home, invitationText) {
    const invitation = readInvitation(invitationText);
    if (invitation.expires_at < now()) refuse('invitation-invalid', 'the invitation has expired');
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    if (!home.has('identity.key')) home.write('identity.key', privateKey.export({ format: 'pem', type: 'pkcs8' }));
    if (!home.has('enrolment.odc')) home.write('enrolment.odc', requestCertificate(invitation, createPrivateKey(home.read('identity.key'))));
    home.write('root.pem', toPem(invitation.root.certificate.der));
    home.writeJson('member.json', {
      analyst_url: invitation.analyst_url, party: invitation.party, role: invitation.role, invitation_id: invitation.invitation_id,
      fingerprint: invitation.root.fingerprint,
    });
    return new Institution(home);
  }

  /** Ask for the certificate, or take it. Returns whether there is one. */
  async join() {
    await this.connection.discover();
    const answer = await this.connection.json('POST', '/v1/enrolments', {
      body: this.home.read('enrolment.odc'), headers: { 'content-type': MESSAGE },
    });
    if (answer.state !== 'issued') return false;
    const der = pemToDer(answer.certificate);
    const identity = this.root.identify(der, now());
    const own = createPublicKey(this.author.key).export({ format: 'der', type: 'spki' });
    const ours = identity.name === this.member.party && identity.role === this.member.role && equal(own, identity.certificate.spki);
    if (!ours) refuse('certificate-refused', 'a certificate for another key or name');
    this.home.write('certificate.pem', toPem(der));
    return true;
  }

  /** Fetch what has been revoked since; an older list than ours is refused. */
  async refresh() {
    try {
      const { body } = await this.connection.ask('GET', '/v1/revocations');
      this.root.adopt(body);
      this.home.write('revocations.crl', body);
    } catch (error) {
      if (error.slug !== 'not-found') throw error;
    }
  }

  /** The collaboration that is meant: the one named, or the only one there is. */
  async collaboration(named = null) {
    await this.refresh();
    const collaborationId = named ?? await this.onlyCollaboration();
    if (!isId(collaborationId)) refuse('input-error', 'the id of a collaboration is 32 hexadecimal digits'); // it names a directory
    return new Round(this, collaborationId);
  }

  async onlyCollaboration() {
    const { collaborations } = await this.connection.json('GET', '/v1/collaborations');
    const open = collaborations.filter(({ state }) => !['closed', 'cancelled'].includes(state));
    if (open.length !== 1) refuse('input-error', `${open.length} collaborations: name one with --collaboration`);
    return open[0].collaboration_id;
  }

  /** What decides whether we believe a message of this collaboration. */
  us(collaborationId, files) {
    return {
      root: this.root, at: now(), party: this.member.party, collaborationId, knownAnalystKey: this.member.analyst_key ?? null,
      acceptedTerms: files.has('acceptance.json') ? files.json('acceptance.json').terms_digest : null,
    };
  }

  /** From the first message on, the analyst is the one with this key. */
  know(verified) {
    if (this.member.analyst_key !== undefined) return;
    this.member.analyst_key = keyOf(verified);
    this.home.writeJson('member.json', this.member);
  }
}

export class Round {
  constructor(institution, id) {
    this.institution = institution;
    this.id = id;
    this.files = institution.home.round(id);
    this.connection = institution.connection;
    this.path = `/v1/collaborations/${id}`;
  }

  get party() {
    return this.institution.member.party;
  }

  status() {
    return this.connection.json('GET', `${this.path}?members=own`);
  }

  /** Wait until the status is as `until` wants it; whoever would wait for ever is told why. */
  async waitFor(until, seconds) {
    const deadline = Date.now() + 1000 * seconds;
    for (;;) {
      const status = await this.status();
      if (until(status)) return status;
      if (['failed', 'cancelled', 'closed'].includes(status.state)) refuse('round-failed', `the round is ${status.state}: ${String(status.failure)}`);
      if (Date.now() >= deadline) refuse('out-of-order', `still ${status.state}`);
      await this.connection.wait(1 + Math.random() / 2);
    }
  }

  get us() {
    return this.institution.us(this.id, this.files);
  }

  /** The terms as the analyst has signed them; once signed by us they cannot become others. */
  async terms() {
    const found = termsFor(this.us, await this.connection.message('GET', `${this.path}/terms`));
    this.institution.know(found);
    return found;
  }

  /** The ledger, page by page: each head by the analyst, the chain whole, and no other than we have seen. */
  async ledger(agreed) {
    const entries = [];
    const heads = [];
    do {
      const page = decode(ledgerPage, await this.connection.message('GET', `${this.path}/ledger?start=${entries.length}`));
      heads.push(byAnalyst(this.us, 'LedgerHead', page.head, agreed.message.analyst_key).message);
      if (!page.entries.length && entries.length < heads.at(-1).length) refuse('ledger-broken', 'fewer entries than the head says');
      entries.push(...page.entries);
    } while (entries.length < heads.at(-1).length);
    const seen = this.files.has('seen.json') ? this.files.json('seen.json') : null;
    const found = checkLedger(this.id, entries, heads.at(-1), seen && { length: seen.length, digest: Buffer.from(seen.digest, 'hex') });
    const chain = checkChain(this.id, entries);
    for (const head of heads) if (!chain[head.length] || !equal(chain[head.length], head.digest)) refuse('ledger-broken', 'two heads that do not agree');
    const published = entries[0]?.subject;
    if (!published || !equal(published, agreed.digest)) refuse('ledger-broken', 'the ledger of other terms');
    requireSignedBy(agreed, entries[0].at);
    this.files.writeJson('seen.json', { length: found.length, digest: found.digest.toString('hex') });
    return { entries, chain, head: found };
  }

  words({ message }) {
    return plainWords(message);
  }

  /** Sign the terms whose plain words a person has been shown. */
  async accept(agreed, { acceptRowRevealingModel = false } = {}) {
    const terms = agreed.message;
    checkWeCan(terms);
    if (rowRevealing(terms).length && !acceptRowRevealingModel) refuse('consent-missing', 'the model shows projected rows to other members');
    if (!this.files.has('acceptance.odc')) {
      const { head } = await this.ledger(agreed);
      const key = generate();
      const { bytes } = sign('Acceptance', {
        collaboration_id: this.id, terms_digest: agreed.digest, shown_digest: plainWordsDigest(terms), party: this.party,
        sealing_suite: SUITE, sealing_key: rawPublic(key), accept_row_revealing_model: acceptRowRevealingModel,
        seen: terms.analyst_key === undefined ? undefined : head,
      }, this.institution.author);
      this.files.write('sealing.key', key.export({ format: 'pem', type: 'pkcs8' }));
      this.files.writeJson('acceptance.json', { terms_digest: agreed.digest.toString('hex') });
      this.files.write('acceptance.odc', bytes);
    }
    await this.connection.ask('PUT', `${this.path}/acceptance`, { body: this.files.read('acceptance.odc'), headers: { 'content-type': MESSAGE } });
  }

  /** The anchor, from what the lead has sealed for us. */
  async anchor(agreed) {
    const terms = agreed.message;
    const bytes = await this.connection.message('GET', `${this.path}/anchor`);
    const { seed, commitment } = anchorFor(this.us, agreed, bytes, createPrivateKey(this.files.read('sealing.key')));
    const whole = expand(seed, terms.anchor.kind, terms.anchor.rows, schemaWidth(terms.table_schema));
    return { commitment, matrix: columnsOf(whole, featuresOf(terms, this.party)) };
  }

  /** Send the projections of these rows once, and return the receipt. */
  async contribute(agreed, rows, { basis = null, acceptWeakSignal = false } = {}) {
    const terms = agreed.message;
    checkWeCan(terms);
    if (!this.files.has('uplink.odc')) await this.prepare(agreed, rows, { basis, acceptWeakSignal });
    const { specs, payload_bytes: payloadBytes } = this.specs();
    await this.ledger(agreed);
    const bytes = await sendUplink(this.connection, this.id, this.files.read('uplink.odc'), specs, this.files.read('uplink.stream'));
    const receipt = receiptFor(this.us, agreed, bytes, this.uplinkDigest());
    const { message } = receipt;
    if (Number(message.payload_bytes) !== payloadBytes) refuse('not-permitted', 'a receipt for other bytes');
    const { entries, chain } = await this.ledger(agreed);
    checkReceipt(entries, chain, message);
    requireSignedBy(receipt, entries[message.ledger_index].at);
    this.files.write('receipt.odc', bytes);
    return message;
  }

  specs() {
    const found = this.files.json('uplink.json');
    return { ...found, specs: found.specs.map((spec) => ({ ...spec, digest: Buffer.from(spec.digest, 'hex') })) };
  }

  uplinkDigest() {
    return Buffer.from(this.files.json('uplink.json').digest, 'hex');
  }

  async prepare(agreed, rows, { basis, acceptWeakSignal }) {
    const terms = agreed.message;
    const { head } = await this.ledger(agreed);
    const anchor = await this.anchor(agreed);
    const sent = keepBack(rows, terms.hold_out ?? 0);
    const encoded = encodeRows(schemaOf(terms, this.party), sent);
    const labels = encodeLabels(terms.table_schema, sent);
    const [, latent] = latentDimsOf(terms, this.party);
    const secret = basis ?? drawBasis(encoded.rows ? encoded : anchor.matrix, latent);
    checkBasis(secret, encoded.columns, latent);
    const kept = terms.least_signal && encoded.rows ? signalKept(encoded, labels.values, latent, terms.table_schema.label_column) : null;
    if (kept !== null && kept < terms.least_signal && !acceptWeakSignal) refuse('input-error', `the leading axes keep ${kept.toFixed(3)} of the own score, less than ${terms.least_signal}: --accept-weak-signal sends nevertheless`);
    const rep = dithered(multiply(encoded, secret), terms.dither ?? 0);
    const { specs, stream, payloadBytes } = makeArrays(terms, rep, multiply(anchor.matrix, secret), labels);
    const manifest = {
      collaboration_id: this.id, terms_digest: agreed.digest, party: this.party, anchor_commitment: anchor.commitment, chunk_bytes: 1048576,
      arrays: specs, seen: terms.analyst_key === undefined ? undefined : head,
      privacy: {
        epsilon: null, delta: null, clip: null, perturb_basis: null, drop_below: null, permute_rows: false,
        dither: terms.dither > 0 ? terms.dither : undefined,
      },
    };
    checkManifest(manifest, terms);
    const { bytes, digest } = sign('UplinkManifest', manifest, this.institution.author);
    this.files.write('basis.f64', doubles(secret.data));
    this.files.write('uplink.stream', stream);
    this.files.writeJson('uplink.json', {
      digest: digest.toString('hex'), payload_bytes: payloadBytes, specs: specs.map((spec) => ({ ...spec, digest: spec.digest.toString('hex') })),
    });
    this.files.write('uplink.odc', bytes);
  }

  /** Fetch the model and our change of basis; keep them once everything about them holds. Returns whose rows trained it too. */
  async receive(agreed) {
    const terms = agreed.message;
    const found = await fetchDownlink(this.connection, this.id, (bytes) => {
      const verified = byAnalyst(this.us, 'DownlinkManifest', bytes, terms.analyst_key);
      checkDownlinkManifest(verified.message, {
        collaborationId: this.id, termsDigest: agreed.digest, party: this.party, uplinkDigest: this.uplinkDigest(), terms, latent: latentDimsOf(terms, this.party)[1],
      });
      return verified;
    });
    const { manifest, arrays: [turn, model], etag } = found;
    const { entries, head } = await this.ledger(agreed);
    checkDownlink(entries, this.party, manifest.digest, releasedBy(manifest.message));
    readModel(model);
    this.files.write('change-of-basis.f64', doubles(changeOfBasis(manifest.message, turn, terms.alignment.method).data));
    this.files.write('model.onnx', model);
    this.files.write('downlink.odc', manifest.bytes);
    if (terms.analyst_key !== undefined) await this.tellSeen(head);
    await acknowledge(this.connection, this.id, etag);
    return { manifest: manifest.message, trainedOn: trainedOn(entries), leftOut: isLeftOut(entries, this.party) };
  }

  /** Check the whole ledger, and that the analyst's checkpoint, which others see, is of the same. */
  async checkpoint(agreed) {
    const { body } = await this.connection.ask('GET', `${this.path}/ledger/checkpoint`); // first: the ledger can only grow
    const found = readCheckpoint(body);
    const { entries } = await this.ledger(agreed);
    const isOurs = found.collaborationId === this.id && isSignedBy(found, agreed.author);
    if (!isOurs || !equal(found.root, merkleRoot(entries.slice(0, found.size)))) refuse('ledger-broken', 'the checkpoint of another ledger, or of another analyst');
    return { size: found.size, root: found.root, trainedOn: trainedOn(entries) };
  }

  /** Tell the other members which ledger we have seen; an older analyst does not relay it. */
  async tellSeen(seen) {
    const { bytes } = sign('SeenLedger', { collaboration_id: this.id, party: this.party, seen, at: now() }, this.institution.author);
    try {
      await this.connection.ask('PUT', `${this.path}/seen`, { body: bytes, headers: { 'content-type': MESSAGE } });
    } catch (error) {
      if (error.slug !== 'not-found') throw error;
    }
  }

  /** h(Y F_i G_i): the probability of each class for each row. */
  predict({ message: terms }, rows) {
    const [, latent] = latentDimsOf(terms, this.party);
    const encoded = encodeRows(schemaOf(terms, this.party), rows);
    const basis = matrix(encoded.columns, latent, fromDoubles(this.files.read('basis.f64')));
    const turn = matrix(latent, terms.latent_dim, fromDoubles(this.files.read('change-of-basis.f64')));
    const aligned = multiply(multiply(encoded, basis), turn);
    const label = terms.table_schema.label_column;
    if (!label.classes) refuse('input-error', 'this client predicts classes alone');
    const found = evaluate(readModel(this.files.read('model.onnx')), 'probabilities', aligned);
    return Array.from({ length: found.rows }, (_, row) => {
      const probabilities = [...found.data.subarray(row * found.columns, (row + 1) * found.columns)];
      return { label: label.classes[probabilities.indexOf(Math.max(...probabilities))], probabilities };
    });
  }
}

/** Some columns of a matrix. */
function columnsOf(whole, columns) {
  if (columns.length === whole.columns) return whole;
  const found = matrix(whole.rows, columns.length);
  for (let row = 0; row < whole.rows; row += 1) columns.forEach((column, index) => { found.data[row * columns.length + index] = whole.data[row * whole.columns + column]; });
  return found;
}

/** All rows but a share, chosen by chance. */
function keepBack(rows, share) {
  const left = [...rows];
  for (let count = Math.floor(share * rows.length); count > 0; count -= 1) left.splice(randomInt(left.length), 1);
  return left;
}

/** A basis has orthonormal columns; with any other one the rows could not be aligned, and would be left out. */
function checkBasis(basis, m, l) {
  if (basis.rows !== m || basis.columns !== l) refuse('input-error', `a basis of ${basis.rows} x ${basis.columns} instead of ${m} x ${l}`);
  for (let i = 0; i < l; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let sum = 0;
      for (let k = 0; k < m; k += 1) sum += basis.data[k * l + i] * basis.data[k * l + j];
      if (Math.abs(sum - (i === j ? 1 : 0)) > 1e-8) refuse('input-error', 'a basis whose columns are not orthonormal');
    }
  }
}

export const basisOf = (bytes, m, l) => matrix(m, l, fromDoubles(bytes));
